"""Waiting for a trial in synchronous and asynchronous code, stopping it, reading its log."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from steps import all_cpus, chatter, divide, double, step, work

import windlass as wl
from harness import PATIENCE, Project, eventually

SHARES_HOME = True

# -- waiting --------------------------------------------------------------------------


def test_a_wait_that_times_out_raises_and_the_trial_continues(home: Path, tmp_path: Path) -> None:
    trial = step.submit("value", before=str(tmp_path / "go"))
    for wait in (trial.wait, trial.result):
        for timeout in (0, 0.05, "50ms", -1):
            with pytest.raises(wl.WaitTimeout) as caught:
                wait(timeout=timeout)
            assert f"Trial {trial.id} did not end within" in str(caught.value)
            assert f"windlass stop {trial.id}" in (caught.value.hint or "")
            assert isinstance(caught.value, TimeoutError)
    assert not trial.refresh().is_finished
    (tmp_path / "go").touch()
    assert trial.result(timeout=PATIENCE) == "value"


def test_a_wait_for_a_finished_trial_never_times_out(home: Path) -> None:
    held = double.submit(3)
    wl.get_trial(held.id).wait()
    assert not held.is_finished
    assert held.wait(timeout=0) is held
    assert (held.is_finished, held.result(timeout=0)) == (True, 6)
    again = wl.get_trial(held.id)
    assert again.result(timeout=0) == 6


def test_an_invalid_timeout_is_refused(home: Path, tmp_path: Path) -> None:
    trial = step.submit("x", before=str(tmp_path / "go"))
    for wrong in ("soon", float("nan"), True):
        with pytest.raises(ValueError, match="duration"):
            trial.wait(timeout=wrong)
    (tmp_path / "go").touch()
    assert trial.result() == "x"


def test_many_threads_may_wait_for_one_trial(home: Path, tmp_path: Path) -> None:
    trial = step.submit("x", before=str(tmp_path / "go"))
    seen: list[str] = []
    waiting = [
        threading.Thread(target=lambda: seen.append(wl.get_trial(trial.id).result()))
        for _ in range(5)
    ]
    for thread in waiting:
        thread.start()
    (tmp_path / "go").touch()
    for thread in waiting:
        thread.join(PATIENCE)
    assert seen == ["x"] * 5


# -- asynchronous code ----------------------------------------------------------------


def test_awaiting_a_trial_returns_its_value_or_raises_its_error(home: Path, tmp_path: Path) -> None:
    async def main() -> None:
        # Each can end only after the other was awaited, so neither blocks the loop.
        one = step.submit("one", before=str(tmp_path / "b"), after=str(tmp_path / "a"))
        two = step.submit("two", before=str(tmp_path / "a"))

        async def release() -> None:
            (tmp_path / "b").touch()

        values = await asyncio.gather(one, two, release())
        assert values == ["one", "two", None]
        assert await one == "one", "what has ended can be awaited again"
        with pytest.raises(ZeroDivisionError):
            await divide.submit(1.0, 0.0)
        stopped = work.submit(str(tmp_path / "never"))
        stopped.stop(grace=0)
        with pytest.raises(wl.TrialStopped):
            await stopped

    asyncio.run(main())


def test_a_cancelled_task_leaves_the_trial_running_and_the_loop_free(
    home: Path, project: Project, tmp_path: Path
) -> None:
    project.write(
        "main.py",
        f"""
        import asyncio, os, time
        import windlass as wl


        @wl.run(cpus=0.25)
        def train(path):
            while not os.path.exists(path):
                time.sleep(0.01)
            return "went on"


        async def main():
            trial = train.submit({str(tmp_path / "go")!r})
            try:
                await asyncio.wait_for(trial, timeout=0.1)
            except asyncio.TimeoutError:
                print("timed out")
            task = asyncio.ensure_future(trial)
            await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                print("cancelled")
            asyncio.ensure_future(trial)  # left waiting when the loop ends
            await asyncio.sleep(0)
            print(trial.id)


        asyncio.run(main())
        """,
    )
    done = project.python("main.py")
    assert (done.returncode, done.stderr) == (0, "")
    *printed, number = done.stdout.split("\n")[:-1]
    assert printed == ["timed out", "cancelled"]
    trial = wl.get_trial(int(number))
    assert not trial.is_finished
    (tmp_path / "go").touch()
    assert trial.result() == "went on"


# -- stopping -------------------------------------------------------------------------


def test_stop_ends_a_running_trial_and_its_child_processes(home: Path) -> None:
    @wl.run
    def train() -> None:
        import subprocess

        child = subprocess.Popen(["sleep", "1000"])
        print("child", child.pid, flush=True)
        child.wait()

    trial = train.submit()
    line = next(trial.logs(follow=True))
    pid = int(line.split()[1])
    assert trial.stop(reason="enough seen") is trial
    with pytest.raises(wl.TrialStopped) as caught:
        trial.result()
    assert (trial.state, trial.is_finished) == ("STOPPED", True)
    assert "enough seen" in trial.message
    assert "was stopped: enough seen" in caught.value.message
    assert (caught.value.trial_id, caught.value.log_tail) == (trial.id, (line,))
    eventually(lambda: not psutil.pid_exists(pid), "the child is gone")


def test_a_trial_that_ignores_signals_is_killed_after_its_grace_period(home: Path) -> None:
    @wl.run
    def stubborn() -> None:
        import signal

        signal.signal(signal.SIGTERM, lambda *_: print("no", flush=True))
        print("ready", flush=True)
        while True:
            time.sleep(0.01)

    trial = stubborn.submit()
    assert next(trial.logs(follow=True)) == "ready"
    trial.stop(grace="200ms").wait(timeout=PATIENCE)
    assert (trial.state, trial.record.signal, trial.exit_code) == ("STOPPED", "SIGKILL", 137)
    assert list(trial.logs()) == ["ready", "no"]


def test_stopping_a_queued_or_finished_trial_changes_nothing_else(
    home: Path, tmp_path: Path
) -> None:
    running = step.options(cpus=all_cpus()).submit("x", before=str(tmp_path / "go"))
    queued = double.submit(1)
    after = double.submit(2)
    queued.stop().wait(timeout=PATIENCE)
    assert (queued.state, queued.started, queued.attempts) == ("STOPPED", None, ())
    with pytest.raises(wl.TrialStopped):
        queued.result()
    (tmp_path / "go").touch()
    assert (running.result(), after.result()) == ("x", 4)
    ended = running.record
    assert running.stop(reason="too late").record == ended
    assert running.result() == "x"


# -- logs -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(module_home: Path) -> wl.Trial[Any]:
    """A trial that wrote 300 lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINDLASS_HOME", str(module_home))
        return chatter.submit(300).wait()


def test_logs_are_the_written_lines_in_order(home: Path, written: Any) -> None:
    lines = list(written.logs())
    assert [line for line in lines if line.startswith("line ")] == [f"line {n}" for n in range(300)]
    assert lines[-1] == "no end of line"
    first = lines[0]
    assert isinstance(first, wl.LogLine) and isinstance(first, str)
    assert (first.stream, first.role, first.replica_index, first.attempt) == (
        "stdout",
        "main",
        0,
        1,
    )
    assert written.record.created <= first.time <= written.record.ended
    assert list(written.logs(search="ünïcode")) == ["ünïcode ✓"]
    assert list(written.logs(search="10%")) == ["10%\r50%\r100%"]


def test_logs_can_be_filtered_by_stream_tail_and_search(home: Path, written: Any) -> None:
    errors = [f"warning {n}" for n in range(0, 300, 100)]
    assert list(written.logs(stream="stderr")) == errors
    assert list(written.logs(stream="stdout", tail=3)) == [
        "ünïcode ✓", "10%\r50%\r100%", "no end of line",
    ]  # fmt: skip
    assert list(written.logs(stream="stderr", tail=2)) == errors[-2:]
    assert list(written.logs(tail=0)) == []
    assert list(written.logs(tail=10_000)) == list(written.logs())
    assert list(written.logs(search="line 29")) == [
        "line 29", *(f"line {n}" for n in range(290, 300)),
    ]  # fmt: skip
    assert list(written.logs(search="line 29", tail=2)) == ["line 298", "line 299"]
    assert list(written.logs(search="warning", stream="stdout")) == []
    assert list(written.logs(search="Warning")) == []
    assert list(written.logs(search=".*")) == [], "a text is looked for, not a pattern"
    with pytest.raises(wl.InvalidArgument, match="There is no stream 'stdlog'"):
        next(written.logs(stream="stdlog"))
    with pytest.raises(wl.InvalidArgument):
        next(written.logs(tail=-1))


def test_following_a_log_returns_lines_as_they_arrive_and_ends_with_the_trial(
    home: Path, tmp_path: Path
) -> None:
    trial = step.submit("x", before=str(tmp_path / "go"))
    lines = trial.logs(follow=True)
    assert next(lines) == "begun"
    assert not trial.refresh().is_finished
    assert list(trial.logs()) == ["begun"], "without follow it ends with what there is"
    (tmp_path / "go").touch()
    assert list(lines) == ["done"]
    assert list(trial.logs(follow=True)) == ["begun", "done"]
    assert list(trial.logs(follow=True, tail=1)) == ["done"]
    assert trial.result() == "x"


def test_a_log_can_be_followed_before_the_trial_has_started(home: Path, tmp_path: Path) -> None:
    blocker = step.options(cpus=all_cpus()).submit("x", before=str(tmp_path / "go"))
    waiting = step.submit("y")
    assert list(waiting.logs()) == []
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.extend(waiting.logs(follow=True)))
    thread.start()
    (tmp_path / "go").touch()
    thread.join(PATIENCE)
    assert seen == ["begun", "done"]
    assert (blocker.result(), waiting.result()) == ("x", "y")
