"""The queue for users: positions, reasons, priorities, moves, and tasks."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE, eventually, kill_server, stop_trials
from job_requests import role, submit
from server_requests import Server
from windlass.client.resources.trial.trial import Trial
from windlass.model.hardware.resources import Accelerator, Resources
from windlass.model.queue import QueuePage


class Crowd:
    """A machine of one CPU with one running trial, and others in the queue."""

    def __init__(self, stage: Path) -> None:
        self.stage = stage
        self.holder = self.submit("holder")
        eventually(lambda: "holder" in self.begun(), "one has the CPU")
        eventually(lambda: self.holder.refresh().state == "RUNNING", "the server knows")

    def submit(self, name: str, **spec: Any) -> Trial[Any]:
        """Submit a trial that records its start, and runs until it is released."""
        program = f"""
notes = os.open({str(self.stage / "notes")!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(notes, b"{name}\\n")
wait_for({str(self.stage / name)!r})
"""
        whole = role(program, resources=Resources(cpus=1))
        return submit(whole, name=name, **spec)

    def begun(self) -> list[str]:
        notes = self.stage / "notes"
        return notes.read_text().split() if notes.exists() else []

    def release(self, *names: str) -> None:
        for name in names:
            (self.stage / name).touch()


@pytest.fixture
def crowd(one_cpu: None, tmp_path: Path) -> Iterator[Crowd]:
    yield Crowd(tmp_path)


def waiting() -> list[str]:
    return [entry.trial.name for entry in wl.list_queue()]


def test_the_queue_lists_positions_and_reasons(crowd: Crowd) -> None:
    first, second = crowd.submit("first"), crowd.submit("second")
    one, two = wl.list_queue()
    assert (one.trial.id, one.position, one.ahead) == (first.id, 1, None)
    assert (two.trial.id, two.position, two.ahead) == (second.id, 2, first.id)
    assert one.why == two.why == "needs 1 CPU, 0 free"
    assert repr(two) == f"<QueueEntry 2: trial {second.id} (second), needs 1 CPU, 0 free>"
    assert pickle.loads(pickle.dumps(two)).trial.id == second.id
    assert [entry.position for entry in wl.list_queue(limit=1)] == [1]
    crowd.release("holder", "first", "second")
    second.wait(PATIENCE)
    assert waiting() == []


def test_pages_of_the_queue_are_consecutive(crowd: Crowd, home: Path) -> None:
    trials = [crowd.submit(f"t{number}") for number in range(5)]
    transport, seen, cursor = wl.Client().transport, [], None
    while True:
        page = transport.ask("GET", "/queue", QueuePage, query={"limit": 2, "cursor": cursor})
        assert len(page.items) <= 2
        seen += [(item.position, item.trial.id, item.ahead) for item in page.items]
        cursor = page.next
        if cursor is None:
            break
    ids = [trial.id for trial in trials]
    assert seen == list(zip(range(1, 6), ids, [None, *ids], strict=False))
    for garbage in ("garbage", "W10", "e30", "Zm9v" * 3):
        status, fault = Server(home).ask("GET", f"/api/v1/queue?cursor={garbage}")
        assert (status, fault["code"]) == (400, "invalid_argument"), garbage


def test_a_higher_priority_is_admitted_first_and_survives_the_server(
    crowd: Crowd, home: Path
) -> None:
    crowd.submit("a"), crowd.submit("b"), crowd.submit("c")
    urgent = wl.get_trial(crowd.submit("d").id)
    assert urgent.set_priority(5).priority == 5
    assert urgent.message == "needs 1 CPU, 0 free; 1st in queue"
    assert waiting() == ["d", "a", "b", "c"]
    kill_server(home)
    assert waiting() == ["d", "a", "b", "c"]
    assert wl.get_trial(urgent.id).priority == 5
    assert "priority 0 -> 5" in [event.message for event in urgent.refresh().events]
    crowd.release("holder")
    eventually(lambda: crowd.begun() == ["holder", "d"], "the urgent one runs next")
    crowd.release("a", "b", "c", "d")


def test_a_trial_is_moved_right_ahead_of_another_and_stays_there(crowd: Crowd, home: Path) -> None:
    trials = {name: crowd.submit(name) for name in "abcd"}
    trials["d"].move_ahead_of(trials["b"])
    assert waiting() == ["a", "d", "b", "c"]
    trials["c"].move_ahead_of(trials["b"].id)
    assert waiting() == ["a", "d", "c", "b"], "what is moved later is right ahead"
    trials["c"].move_ahead_of(trials["b"])
    assert waiting() == ["a", "d", "c", "b"], "it is there already"
    trials["b"].move_ahead_of(trials["a"])
    assert waiting() == ["b", "a", "d", "c"]
    kill_server(home)
    assert waiting() == ["b", "a", "d", "c"]
    crowd.submit("e")
    assert waiting() == ["b", "a", "d", "c", "e"], "who comes now is the last"
    crowd.release("holder", *"abcde")
    eventually(lambda: len(crowd.begun()) == 6, "all of them ran")
    assert crowd.begun() == ["holder", "b", "a", "d", "c", "e"]


def test_a_moved_trial_gets_the_priority_of_the_other(crowd: Crowd) -> None:
    plain, urgent = crowd.submit("plain"), crowd.submit("urgent", priority=7)
    assert waiting() == ["urgent", "plain"]
    assert plain.move_ahead_of(urgent).priority == 7
    assert waiting() == ["plain", "urgent"]
    plain.set_priority(3)
    assert waiting() == ["urgent", "plain"]


def test_only_queued_trials_can_be_moved(crowd: Crowd) -> None:
    queued = crowd.submit("queued")
    with pytest.raises(wl.Conflict, match=rf"Trial {crowd.holder.id} \(holder\) is RUNNING"):
        crowd.holder.move_ahead_of(queued)
    with pytest.raises(wl.Conflict, match="windlass queue"):
        queued.move_ahead_of(crowd.holder)
    with pytest.raises(wl.InvalidArgument, match="ahead of itself"):
        queued.move_ahead_of(queued)
    with pytest.raises(wl.NotFound):
        queued.move_ahead_of(10_000_000)
    with pytest.raises(wl.InvalidArgument, match="is neither a trial nor a trial id"):
        queued.move_ahead_of("train")  # type: ignore[arg-type]
    with pytest.raises(wl.InvalidArgument, match="not a whole number"):
        queued.set_priority(1.5)  # type: ignore[arg-type]
    queued.stop().wait(PATIENCE)
    with pytest.raises(wl.Conflict, match="has ended"):
        queued.set_priority(1)
    assert crowd.holder.set_priority(4).priority == 4, "it matters when it waits again"


def test_concurrent_moves_keep_every_trial_and_the_order_of_the_rest(crowd: Crowd) -> None:
    still = [crowd.submit(f"still{number}") for number in range(3)]
    moved = [crowd.submit(f"moved{number}") for number in range(6)]
    target = still[1].id
    threads = [
        threading.Thread(target=lambda t=trial: wl.get_trial(t.id).move_ahead_of(target))
        for trial in moved
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    line = waiting()
    assert line[0] == "still0"
    assert sorted(line[1:7]) == [f"moved{number}" for number in range(6)]
    assert line[7:] == ["still1", "still2"]


def test_tasks_show_the_resources_and_the_end_of_each_replica(
    fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_CPUS", "4")
    monkeypatch.setenv("WINDLASS_DEVICES", "a100,a100")
    go = str(tmp_path / "go")
    gpu = Accelerator(kind="a100", count=1)
    resources = Resources(cpus=0.5, memory=1 << 30, accelerator=gpu)
    program = f"wait_for({go!r})\nif index: os.kill(os.getpid(), signal.SIGKILL)"
    trial = submit(role(program, replicas=2, resources=resources))
    try:
        eventually(
            lambda: [task.state for task in trial.list_tasks()] == ["Running"] * 2, "both run"
        )
        zero, one = trial.list_tasks()
        assert (zero.name, zero.attempt, zero.cpus, zero.memory) == ("worker-0", 1, 0.5, 1 << 30)
        assert sorted(zero.devices + one.devices) == [0, 1]
        assert zero.node and zero.address.startswith("127.0.0.1:")
        assert zero.pid and Path(f"/proc/{zero.pid}").exists()
        assert one.started is not None and one.ended is None and one.exit_code is None
        assert len(list(trial.list_tasks(limit=1))) == 1
    finally:
        Path(go).touch()
    trial.wait(PATIENCE)
    _, one = trial.list_tasks()
    assert (one.state, one.exit_code, one.signal) == ("Failed", 137, "SIGKILL")
    assert one.pid is None and one.ended is not None and one.devices
    assert repr(one).startswith("<Task worker-1 attempt 1: Failed, exit code 137 on ")
    garbage = Server(fresh_home).ask("GET", f"/api/v1/trials/{trial.id}/tasks?cursor=nothing")
    assert garbage[0] == 400


def test_every_attempt_is_a_task_and_future_attempts_are_queued(crowd: Crowd) -> None:
    queued = crowd.submit("queued")
    [task] = queued.list_tasks()
    assert (task.state, task.attempt, task.node) == ("Queued", 0, "")
    queued.stop().wait(PATIENCE)  # before the trial that it waits for
    stop_trials(Path(wl.server_info().home))
    from windlass.model.job import RestartPolicy

    again = role("sys.exit(0 if attempt == 2 else 3)", restart_policy=RestartPolicy.ON_FAILURE)
    trial = submit(again).wait(PATIENCE)
    tasks = list(trial.list_tasks())
    assert [(task.attempt, task.state, task.exit_code) for task in tasks] == [
        (1, "Failed", 3),
        (2, "Succeeded", 0),
    ]
    assert list(queued.list_tasks()) == [], "it never ran"
