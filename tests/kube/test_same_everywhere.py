"""What a trial does is the same wherever it runs: each test on this machine, and in pods."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE, eventually, kill_server, stop_server
from kube.access import Cluster, find_cluster
from kube.places import Place, kubeconfig_for, new_namespace
from kube.programs import double, go_on, learn, leave_with, linger, refuse, whoami


@pytest.fixture(scope="module")
def local_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("local") / "wl"
    yield home
    stop_server(home)


@pytest.fixture(scope="module")
def pods(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Place]]:
    """A home whose server has a cluster, and a namespace for all tests of this file."""
    from kubernetes import client

    folder = tmp_path_factory.mktemp("pods")
    core = client.CoreV1Api(cluster.admin())
    namespace = new_namespace(cluster, core, f"windlass-same-{secrets.token_hex(4)}")
    kubeconfig_for(cluster, namespace.name, folder)
    yield folder, Place("kubernetes", image=cluster.image, namespace=namespace)
    stop_server(folder / "wl")
    namespace.remove()


@pytest.fixture(params=["local", "kubernetes"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Where a test runs; the home of its server is in the environment."""
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    if request.param == "local":
        monkeypatch.setenv("WINDLASS_HOME", str(request.getfixturevalue("local_home")))
        yield Place("local")
        return
    if find_cluster() is None:
        from kube.access import HOW_TO

        pytest.skip(HOW_TO)
    request.getfixturevalue("sharing")
    folder, found = request.getfixturevalue("pods")
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    monkeypatch.setenv("WINDLASS_HOME", str(folder / "wl"))
    yield found


def home() -> Path:
    import os

    return Path(os.environ["WINDLASS_HOME"])


def test_a_value_comes_back_and_what_was_printed_is_recorded(place: Place) -> None:
    trial = place.run(double).submit(21)
    assert trial.result(timeout=PATIENCE) == 42
    assert list(trial.logs()) == ["doubling 21"]
    assert (trial.refresh().state, trial.exit_code) == ("SUCCEEDED", 0)
    eventually(lambda: not place.leftovers(), "nothing of it is left")


def test_an_exception_is_raised_here_as_what_it_was_there(place: Place) -> None:
    with pytest.raises(ValueError, match="not today"):
        place.run(refuse)("not today")


def test_metrics_and_kept_files_are_the_trials(place: Place, tmp_path: Path) -> None:
    trial = place.run(learn).submit(5)
    assert trial.result(timeout=PATIENCE) == 0.2
    assert trial.refresh().summary_metrics["loss"].count == 5
    assert [point.value for point in trial.metrics("loss")] == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    trial.download_artifacts(tmp_path / "kept")
    assert [path.read_text() for path in (tmp_path / "kept").rglob("notes.txt")] == ["kept"]


def test_one_that_is_killed_goes_on_from_its_checkpoint(place: Place) -> None:
    trial = place.run(go_on, retries=1).submit(4)
    assert trial.result(timeout=PATIENCE) == 2
    assert list(trial.logs()) == ["from 0", "from 2"]
    assert [each.exit_code for each in trial.refresh().attempts] == [137, 0]
    assert [each.step for each in trial.list_checkpoints(sort_by="step")] == [0, 1, 2, 3]


def test_a_deadline_ends_it(place: Place) -> None:
    trial = place.run(linger, timeout="6s").submit()
    trial.wait(timeout=PATIENCE)
    assert trial.state == "FAILED"
    assert trial.conditions[-1].reason == "DeadlineExceeded"


def test_stopping_it_ends_it_and_leaves_nothing(place: Place) -> None:
    trial = place.run(linger).submit()
    eventually(lambda: "lingering" in list(trial.logs()), "it runs")
    trial.stop(grace=1)
    trial.wait(timeout=PATIENCE)
    assert trial.state == "STOPPED"
    eventually(lambda: not place.leftovers(), "nothing of it is left")


@pytest.mark.parametrize("code", [1, 137])
def test_an_exit_code_is_the_programs_own(place: Place, code: int) -> None:
    trial = place.run(leave_with).submit(code).wait(timeout=PATIENCE)
    assert (trial.state, trial.exit_code) == ("FAILED", code)


def test_a_suspended_trial_stops_and_starts_again(place: Place) -> None:
    trial = place.run(linger).submit()
    eventually(lambda: len(list(trial.logs())) == 1, "it runs")
    trial.suspend()
    eventually(lambda: trial.refresh().state == "SUSPENDED", "it is suspended")
    trial.resume()
    eventually(lambda: len(list(trial.logs())) == 2, "it runs again")
    trial.stop(grace=0)
    trial.wait(timeout=PATIENCE)


def test_replicas_know_which_they_are(place: Place) -> None:
    trial = place.run(whoami, replicas=2).submit()
    assert trial.result(timeout=PATIENCE) == (0, 2)
    assert [(each.role, each.index) for each in trial.refresh().replicas] == [
        ("main", 0),
        ("main", 1),
    ]


def test_a_server_that_is_killed_loses_nothing(place: Place) -> None:
    trial = place.run(learn).submit(4)
    kill_server(home())
    assert trial.result(timeout=PATIENCE) == 0.25
    assert trial.refresh().summary_metrics["loss"].count == 4
    assert len(trial.attempts) == 1


def test_a_program_is_a_command_line_too(place: Place, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print('hello', *sys.argv[1:])\n")
    job = wl.Job(
        wl.PythonScript(tmp_path / "train.py"), args={"lr": 0.1}, executor=place.executor()
    )
    trial = job.submit().wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
    assert list(trial.logs()) == ["hello --lr=0.1"]
