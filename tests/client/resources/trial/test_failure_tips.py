"""Remedies for failures, in terms of the API that created the job."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from windlass.client.resources.trial.failure_tips import tip_for
from windlass.model.job import (
    Code,
    Executable,
    FunctionCall,
    JobSpec,
    ProcessCall,
    RestartPolicy,
    Role,
)
from windlass.model.records import Attempt, Provenance, TrialRecord, TrialState

SCRIPT = ProcessCall(argv=("python", "train.py"))
FUNCTION = FunctionCall(payload="0" * 64)
ONCE = 'restart_policy="Never" fails at once'


def failed(executable: Executable, reason: str, *, replicas: int = 2, **spec: int) -> TrialRecord:
    role = Role(executable=executable, replicas=replicas, restart_policy=RestartPolicy.ON_FAILURE)
    return TrialRecord(
        id=1, uid="", name="t", experiment="t", experiment_id=1, project="p", reason=reason,
        state=TrialState.FAILED, spec=JobSpec(roles=(role,), **spec),
    )  # fmt: skip


@pytest.mark.parametrize("executable", [SCRIPT, FUNCTION])
def test_a_job_with_default_restarts_explains_how_to_disable_them(executable: Executable) -> None:
    tip = tip_for(failed(executable, "BackoffLimitExceeded"), "")
    assert tip == f'Tip: it restarts because of restart_policy="OnFailure"; {ONCE}'


@pytest.mark.parametrize(
    "trial",
    [
        failed(FUNCTION, "BackoffLimitExceeded", backoff_limit=2),  # retries=2
        failed(SCRIPT, "BackoffLimitExceeded", replicas=1),
        failed(SCRIPT, "ReplicaFailed"),
    ],
)
def test_a_job_with_explicit_restarts_or_none_gets_no_such_tip(trial: TrialRecord) -> None:
    assert tip_for(trial, "") is None


def test_the_cause_comes_before_the_number_of_restarts() -> None:
    text = "ModuleNotFoundError: No module named 'sklearn'"
    tip = tip_for(failed(SCRIPT, "BackoffLimitExceeded"), text)
    first, second = (tip or "").splitlines()
    assert 'packages=["scikit-learn"]' in first
    assert second.endswith(ONCE)


def test_a_job_has_a_deadline_and_a_function_has_a_timeout() -> None:
    assert (tip_for(failed(SCRIPT, "DeadlineExceeded"), "") or "").endswith(": active_deadline=")
    assert (tip_for(failed(FUNCTION, "DeadlineExceeded"), "") or "").endswith(": timeout=")


def test_a_program_without_a_keyboard_gets_no_tip_for_functions() -> None:
    text = "EOFError: EOF when reading a line"
    assert ".local(" in (tip_for(failed(FUNCTION, "ReplicaFailed"), text) or "")
    assert ".local(" not in (tip_for(failed(SCRIPT, "ReplicaFailed"), text) or "")


def test_the_port_of_a_replica_is_not_reported_as_taken_by_another_program() -> None:
    text = "OSError: [Errno 98] Address already in use"
    assert "SO_REUSEADDR" in (tip_for(failed(SCRIPT, "ReplicaFailed"), text) or "")
    alone = tip_for(failed(SCRIPT, "ReplicaFailed", replicas=1), text) or ""
    assert "another trial" in alone
    assert "SO_REUSEADDR" not in alone


@pytest.mark.finding("U26")
@pytest.mark.parametrize(
    ("path", "file", "folder"),
    [
        ("traindata.pt", "traindata.pt", "data"),
        ("inputs/x.csv", "inputs/x.csv", "inputs"),
        ("../data/x.csv", "../data/x.csv", "../data"),
        ("/home/ada/project/data/x.csv", "data/x.csv", "data"),
        ("/home/ada/project/src/../data/x.csv", "data/x.csv", "data"),
        ("/home/ada/.windlass/trials/1/main-0/work/data/x.csv", "data/x.csv", "data"),
    ],
)
def test_a_file_that_git_ignores_is_named_however_the_program_opens_it(
    path: str, file: str, folder: str
) -> None:
    trial = failed(SCRIPT, "ReplicaFailed")
    trial = structs.replace(
        trial, spec=structs.replace(trial.spec, code=Code(root="/home/ada/project"))
    )
    error = f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"
    tip = tip_for(trial, error) or ""
    assert f"Tip: '{file}' was not in the code snapshot; is it ignored by .gitignore?" in tip
    assert f'volumes={{"{folder}": "/path/to/{folder.rpartition("/")[2]}"}}' in tip


def missing(path: str, root: Path, *, workdir: str = ".", **fields: Any) -> str:
    """Return the tip for a trial of this machine that found no file at `path`."""
    trial = failed(SCRIPT, "ReplicaFailed")
    fields = {"provenance": Provenance(host=os.uname().nodename), **fields}
    spec = structs.replace(trial.spec, code=Code(root=str(root), workdir=workdir))
    error = f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"
    return tip_for(structs.replace(trial, spec=spec, **fields), error) or ""


def test_a_file_that_does_not_exist_in_the_project_either_is_reported_as_missing(
    tmp_path: Path,
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/x.npy").touch()
    tip = f"Tip: 'y.npy' does not exist in {tmp_path} either: check the path"
    assert missing("y.npy", tmp_path) == tip
    assert missing(f"{tmp_path}/y.npy", tmp_path, workdir="sub") == tip
    assert f"does not exist in {tmp_path}/sub either" in missing("y.npy", tmp_path, workdir="sub")
    assert ".gitignore" in missing("x.npy", tmp_path, workdir="sub")
    assert ".gitignore" in missing("../sub/x.npy", tmp_path, workdir="sub")
    assert ".gitignore" in missing("y.npy", tmp_path / "gone")
    assert ".gitignore" in missing("y.npy", tmp_path, provenance=Provenance(host="elsewhere"))


def test_a_file_outside_of_the_project_becomes_a_volume(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("data/x.npy", "y.npy"):
        (tmp_path / name).touch()
    project = tmp_path / "project"
    project.mkdir()
    assert 'volumes={"../data": "../data"}' in missing("../data/x.npy", project)
    assert 'volumes={"../y.npy": "../y.npy"}' in missing("../y.npy", project)
    remote = (Attempt(role="main", index=0, attempt=1, phase="Failed", node="elsewhere"),)
    assert '"/path/to/data"' in missing("../data/x.npy", project, attempts=remote)


@pytest.mark.finding("U26")
@pytest.mark.parametrize(
    "path", ["/etc/nothing", "/home/ada/project2/x", "/home/ada/.windlass/trials/12/main-0/work/x"]
)
def test_a_missing_file_outside_of_the_project_gets_no_tip(path: str) -> None:
    trial = failed(SCRIPT, "ReplicaFailed")
    trial = structs.replace(
        trial, spec=structs.replace(trial.spec, code=Code(root="/home/ada/project"))
    )
    error = f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"
    assert "snapshot" not in (tip_for(trial, error) or "")
