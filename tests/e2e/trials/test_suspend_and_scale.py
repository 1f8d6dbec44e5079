"""Changes of a running trial: suspended, resumed, scaled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE, eventually, kill_server
from job_requests import role, submit
from windlass.client.resources.trial.trial import Trial
from windlass.model.hardware.resources import Resources


@pytest.fixture(autouse=True)
def at_home(home: Path) -> None:
    """Every test uses the server of the file."""


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    """Return the folder in which replicas write and find their marks."""
    return tmp_path


def waiting(stage: Path) -> str:
    """A program that reports its start, and runs until it is released."""
    return f"""
touch(os.path.join({str(stage)!r}, f"{{name}}.{{attempt}}"))
wait_for(os.path.join({str(stage)!r}, "go"))
"""


def until(stage: Path, *names: str) -> None:
    """Wait until these attempts run."""
    for name in names:
        eventually((stage / name).exists, f"{name} runs")


def until_state(trial: Trial[Any], state: str) -> None:
    eventually(lambda: trial.refresh().state == state, f"it is {state}")


def running(trial: Trial[Any]) -> list[str]:
    return [replica.name for replica in trial.refresh().replicas if replica.phase == "Running"]


def reasons(trial: Trial[Any]) -> list[str]:
    return [event.reason for event in trial.refresh().events]


def test_a_suspended_trial_runs_nothing_and_resumes_with_the_next_attempt(stage: Path) -> None:
    trial = submit(role(waiting(stage), replicas=2))
    until(stage, "worker-0.1", "worker-1.1")
    assert trial.suspend().state == "SUSPENDED"
    assert trial.suspend().state == "SUSPENDED", "asked again, nothing changes"
    eventually(lambda: not running(trial), "nothing of it runs")
    assert trial.resume().state != "SUSPENDED"
    assert trial.resume().state != "SUSPENDED", "asked again, nothing changes"
    until(stage, "worker-0.2", "worker-1.2")
    assert trial.suspend().state == "SUSPENDED"
    trial.resume()
    until(stage, "worker-0.3", "worker-1.3")
    (stage / "go").touch()
    assert trial.wait(PATIENCE).state == "SUCCEEDED"
    assert [replica.attempt for replica in trial.replicas] == [3, 3]
    assert reasons(trial).count("Suspended") == reasons(trial).count("Resumed") == 2
    assert trial.restarts == 0, "a suspension is not a failure"


def test_a_trial_submitted_as_suspended_creates_nothing_until_it_is_resumed(stage: Path) -> None:
    (stage / "go").touch()
    trial = submit(role(waiting(stage), replicas=2), suspend=True)
    other = submit(role(waiting(stage), name="other"))
    other.wait(PATIENCE)  # all earlier trials were reconciled
    assert trial.refresh().state == "SUSPENDED"
    assert trial.attempts == ()
    assert [replica.attempt for replica in trial.replicas] == [0, 0]
    assert not list(Path(trial.directory).glob("worker-*"))
    assert trial.resume().wait(PATIENCE).state == "SUCCEEDED"
    assert [replica.attempt for replica in trial.replicas] == [1, 1]


def test_a_trial_grows_and_shrinks_while_it_runs(stage: Path) -> None:
    trial = submit(role(waiting(stage), replicas=3))
    until(stage, "worker-0.1", "worker-1.1", "worker-2.1")
    trial.scale(worker=1)
    eventually(lambda: running(trial) == ["worker-0"], "the highest went")
    assert trial.scale(worker=1).state == "RUNNING", "asked again, nothing changes"
    trial.scale(4)
    until(stage, "worker-1.2", "worker-2.2", "worker-3.1")
    assert [replica.name for replica in trial.refresh().replicas] == [
        f"worker-{n}" for n in range(4)
    ]
    assert trial.replicas[0].attempt == 1, "who stays is left alone"
    scaled = [event.message for event in trial.events if event.reason == "Scaled"]
    assert scaled == ["worker 3 -> 1", "worker 1 -> 4"]
    (stage / "go").touch()
    assert trial.wait(PATIENCE).state == "SUCCEEDED"


def test_an_invalid_change_is_refused_with_the_reason(stage: Path) -> None:
    # The server's machine has fewer than ten thousand CPUs.
    trial = submit(
        role(waiting(stage), name="chief"),
        role(waiting(stage), name="worker", replicas=2),
        framework="tensorflow",
    )
    until(stage, "chief-0.1")
    before = trial.refresh().record.spec
    with pytest.raises(wl.InvalidArgument, match="has no role 'wroker'") as refused:
        trial.scale(wroker=3)
    assert "Did you mean 'worker'? It has: chief, worker." in str(refused.value)
    with pytest.raises(wl.InvalidArgument, match="tensorflow has one chief; there are 2"):
        trial.scale(chief=2)
    with pytest.raises(wl.InvalidArgument, match="at least one role needs a replica") as refused:
        trial.scale(chief=0, worker=0)
    assert f"windlass suspend {trial.id}, or windlass stop {trial.id}" in str(refused.value)
    with pytest.raises(wl.InvalidArgument, match=r"the roles chief, worker: name the role for 3"):
        trial.scale(3)
    with pytest.raises(wl.InvalidArgument, match="name the role for 3"):
        trial.scale(3, worker=2)
    with pytest.raises(wl.ResourceError, match="for its 9001 replicas; there"):
        trial.scale(worker=9_000)
    with pytest.raises(wl.InvalidArgument, match="10001 replicas; a job has at most 10000"):
        trial.scale(worker=10_000)
    with pytest.raises(wl.InvalidArgument, match="worker='4': write a whole"):
        trial.scale({"worker": "4"})  # type: ignore[dict-item]  # as a user may call it
    with pytest.raises(wl.InvalidArgument, match=r"scale\(worker=4\)"):
        trial.scale()
    for name in ("Worker", "two words", "\ud800"):
        with pytest.raises(wl.InvalidArgument, match="is not a valid role name"):
            trial.scale({name: 1})
    with pytest.raises(wl.InvalidArgument, match="half of a surrogate pair"):
        list(trial.logs(search="\ud800"))
    assert trial.refresh().record.spec == before
    assert "Scaled" not in reasons(trial)
    (stage / "go").touch()
    trial.wait(PATIENCE)
    for change in (trial.suspend, trial.resume, lambda: trial.scale(worker=3)):
        with pytest.raises(wl.Conflict, match=r"has ended \(SUCCEEDED"):
            change()


def test_a_stopping_trial_cannot_be_changed(stage: Path) -> None:
    stubborn = "signal.signal(signal.SIGTERM, lambda *_: None)" + waiting(stage)
    trial = submit(role(stubborn, replicas=2))
    until(stage, "worker-0.1", "worker-1.1")
    assert trial.stop(grace=3600).state == "STOPPING"
    with pytest.raises(wl.Conflict, match="is being stopped"):
        trial.scale(worker=3)
    with pytest.raises(wl.Conflict, match="is being stopped"):
        trial.suspend()
    (stage / "go").touch()
    trial.wait(PATIENCE)


@pytest.mark.thorough
def test_a_change_survives_a_killed_server(stage: Path, fresh_home: Path) -> None:
    trial = submit(role(waiting(stage), replicas=1))
    until(stage, "worker-0.1")
    trial.scale(worker=2)
    kill_server(fresh_home)
    assert wl.get_trial(trial.id).record.spec.roles[0].replicas == 2
    until(stage, "worker-1.1")
    trial.suspend()
    kill_server(fresh_home)
    again = wl.get_trial(trial.id)
    assert again.state == "SUSPENDED"
    again.resume()
    kill_server(fresh_home)
    wl.Client().server_info()  # a request starts a server again
    until(stage, "worker-0.2", "worker-1.2")
    (stage / "go").touch()
    assert again.wait(PATIENCE).state == "SUCCEEDED"


def test_a_queued_job_may_shrink_and_a_larger_size_waits_for_capacity(
    stage: Path, fresh_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_CPUS", "1")
    half = Resources(cpus=0.5)
    first = submit(role(f"wait_for({str(stage / 'first')!r})", resources=half))
    waits = submit(role(waiting(stage), replicas=2, resources=half))
    assert waits.refresh().state == "QUEUED"
    waits.scale(worker=1)
    until(stage, "worker-0.1")
    eventually(lambda: running(waits) == ["worker-0"], "the server knows that it runs")
    waits.scale(worker=2)
    grows = "cannot grow yet: needs 0.5 CPUs more, 0 free; 1st in queue"
    eventually(lambda: waits.refresh().message == grows, "it says what the growth waits for")
    assert running(waits) == ["worker-0"], "the rest goes on"
    message = r"needs 1\.5 CPUs for its 3 replicas; there is 1\.\n  Request fewer\.$"
    with pytest.raises(wl.ResourceError, match=message):
        waits.scale(worker=3)
    (stage / "first").touch()
    assert first.wait(PATIENCE).state == "SUCCEEDED"
    until(stage, "worker-1.1")
    (stage / "go").touch()
    assert waits.wait(PATIENCE).state == "SUCCEEDED"
    assert [replica.attempt for replica in waits.replicas] == [1, 1]
