"""Reads and writes of agents and of their server fail now and then: no record is wrong."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path

import pytest
from agent_processes import Agent, RemoteSite

import windlass as wl
from fault_injection import Faults
from harness import PATIENCE
from small_projects import import_copy
from windlass.runtimes import paths
from windlass.worker.blobs.digest import path_in_store
from windlass.worker.blobs.manifest import blobs_of, decode
from windlass.worker.checkpoints import records as checkpoint_records

STEPS = 20
ENDS = {0: 0, 1: 1, 2: 7}  # the exit code of each way to end
_functions = import_copy(Path(__file__).parents[1] / "chaos/faults/recorded_function.py")


@pytest.mark.thorough
@pytest.mark.finding("A1")
def test_faults_of_agents_and_their_server_change_no_record(
    fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = int(os.environ.get("WINDLASS_CHAOS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"WINDLASS_CHAOS_SEED={seed}")
    faults = Faults(tmp_path, tmp_path, seed)
    # The interpreter reads the program itself.
    environment = {**faults.environment, "FAULT_SPARE": "worker.zip:/code/"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    marks = tmp_path / "marks"
    marks.mkdir()
    (marks / "go").touch()
    names = {f"way{way}-{number}": way for way in ENDS for number in range(2)}
    trials = {
        name: _functions.record.submit(name, str(marks), STEPS, way) for name, way in names.items()
    }
    places = {
        name: RemoteSite(fresh_home, tmp_path / f"place-{name}", through_tunnels=False)
        for name, trial in trials.items()
        if trial.wait(PATIENCE)
    }
    faults.begin()
    agents = {name: places[name].run(trials[name], **environment) for name in names}
    exit_codes = {name: agent.wait() for name, agent in agents.items()}
    assert faults.count().total() > 20
    faults.end()
    assert exit_codes == {name: ENDS[way] for name, way in names.items()}
    for name, way in names.items():
        check(agents[name], name, way)
        assert (marks / f"{name}.begin").read_text() == "xx", "each of two attempts ran once"
        check_checkpoints(fresh_home, trials[name], name)
        places[name].front.close()


def check(agent: Agent, name: str, way: int) -> None:
    """The server has everything that the program of an agent recorded, once."""
    assert agent.ending()["exit_code"] == ENDS[way]
    lines = [line for line in agent.log().splitlines() if line.startswith(name)]
    assert lines == [f"{name} step {step}" for step in range(STEPS)]
    if way == 0:
        assert pickle.loads((agent.folder / paths.RESULT).read_bytes()) == name
    elif way == 1:
        error = pickle.loads((agent.folder / paths.ERROR_PICKLE).read_bytes())
        assert isinstance(error, LookupError)


def check_checkpoints(home: Path, trial: wl.Trial[str], name: str) -> None:
    """The server's files have both checkpoints of both attempts, with their contents."""
    records = checkpoint_records.records(str(paths.checkpoints_dir(home, trial.id)))
    assert sorted(record["step"] for _, record in records) == [0, 0, STEPS // 2, STEPS // 2]
    for _, record in records:
        manifest = Path(path_in_store(str(home / "blobs"), record["manifest"])).read_bytes()
        [digest] = blobs_of(decode(manifest))
        content = Path(path_in_store(str(home / "blobs"), digest)).read_text()
        assert content == f"{name} {record['step']}"
