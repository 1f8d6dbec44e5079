"""Runs that Windlass did not launch are recorded like others, with any end of their process."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually, kill_server
from windlass.client.resources.trial.trial import Trial

A_MINUTE = 60.0


@pytest.fixture(autouse=True)
def at_home(home: Path) -> None:
    """Every test uses the server of the file."""


@pytest.fixture
def started(project: Project) -> Iterator[Any]:
    """Starts programs that print "ready", and ends them after the test."""
    programs: list[subprocess.Popen[str]] = []

    def start(text: str, *, says: str = "ready") -> subprocess.Popen[str]:
        project.write("program.py", text)
        program = project.start("-u", "program.py")
        programs.append(program)
        assert program.stdout is not None
        assert program.stdout.readline().strip() == says, program.communicate(timeout=PATIENCE)
        return program

    yield start
    for program in programs:
        program.kill()
        program.communicate(timeout=PATIENCE)


def named(name: str) -> Trial[Any]:
    return next(wl.list_trials(name=name, sort_by="-id", limit=1))


def until_ended(trial: Trial[Any]) -> float:
    """Return the seconds until the trial is recorded as ended."""
    began = time.monotonic()
    trial.wait(PATIENCE)
    return time.monotonic() - began


def test_a_block_is_a_trial_with_all_features(tmp_path: Path) -> None:
    saved = tmp_path / "model.txt"
    saved.write_text("weights")
    params = {"lr": 0.1, "layers": [2, 3]}
    with wl.start_trial("notebook", experiment="try-outs", params=params, labels=["x"]) as trial:
        assert trial.state == "RUNNING"
        current = wl.current_trial()
        assert current is not None
        assert (current.id, current.name, current.experiment) == (trial.id, "notebook", "try-outs")
        assert current.params == params
        assert (wl.rank(), wl.world_size(), wl.should_stop()) == (0, 1, False)
        for step in range(5):
            wl.report(step, loss=1 / (step + 1))
        kept = wl.save_checkpoint(saved, step=4)
        latest = wl.latest_checkpoint()
        assert latest is not None and Path(latest).read_text() == "weights"
        (Path(wl.output_dir()) / "notes.txt").write_text("kept")
        wl.report_progress(0.5)
    assert (trial.state, trial.exit_code, trial.labels) == ("SUCCEEDED", 0, ("x",))
    assert wl.current_trial() is None
    assert "WINDLASS_TRIAL_ID" not in os.environ
    again = wl.get_trial(trial.id)
    assert (again.experiment, again.params) == ("try-outs", params)
    assert (again.summary_metrics["loss"].count, again.summary_metrics["loss"].last) == (5, 0.2)
    assert [(checkpoint.uid, checkpoint.step) for checkpoint in again.list_checkpoints()] == [
        (kept, 4)
    ]
    assert [artifact.name for artifact in again.list_artifacts()] == ["notes.txt"]
    assert again.progress == 0.5
    [task] = again.list_tasks()
    assert (task.state, task.exit_code, task.cpus) == ("Succeeded", 0, 0.0)
    assert trial.finish().state == "SUCCEEDED", "said again, nothing changes"


def test_an_exception_fails_the_trial_and_is_recorded() -> None:
    with pytest.raises(ZeroDivisionError), wl.start_trial("divides") as trial:
        print(1 / 0)
    assert (trial.state, trial.exit_code) == ("FAILED", 1)
    assert trial.error is not None
    assert trial.error.type == "ZeroDivisionError"
    assert "print(1 / 0)" in trial.error.traceback
    with pytest.raises(ZeroDivisionError):
        trial.result()


@pytest.mark.parametrize(
    ("raised", "state", "code"),
    [
        (KeyboardInterrupt(), "STOPPED", 130),
        (SystemExit(0), "SUCCEEDED", 0),
        (SystemExit(3), "FAILED", 3),
    ],
)
def test_each_way_to_leave_a_block_is_recorded(
    raised: BaseException, state: str, code: int
) -> None:
    with pytest.raises(type(raised)), wl.start_trial("leaves") as trial:
        raise raised
    assert (trial.state, trial.exit_code) == (state, code)


def test_a_trial_can_be_started_and_finished_without_a_block() -> None:
    trial = wl.start_trial("by-hand")
    wl.report(0, loss=0.5)
    arrived = pickle.loads(pickle.dumps(trial))
    assert type(arrived) is wl.Trial and arrived.id == trial.id
    assert trial.finish().state == "SUCCEEDED"
    failed = wl.start_trial("by-hand").finish(ValueError("no data"))
    assert failed.state == "FAILED"
    assert failed.error is not None and failed.error.message == "no data"


def test_a_process_is_one_trial_at_a_time_and_invalid_calls_raise() -> None:
    with wl.start_trial("first") as trial:
        with pytest.raises(wl.Conflict, match=f"already is trial {trial.id}"):
            wl.start_trial("second")
        with pytest.raises(wl.Conflict, match="not started by Windlass"):
            wl.get_trial(trial.id).suspend()
    with pytest.raises(wl.Unsupported, match="not started by Windlass"):
        trial.rerun()
    assert trial.result() is None
    for wrong in ({"name": ""}, {"name": "x", "params": [1]}, {"name": "x", "experiment": 7}):
        with pytest.raises(wl.InvalidArgument, match=r"wl\.start_trial"):
            wl.start_trial(**wrong)  # type: ignore[arg-type]


def test_inside_a_launched_trial_no_other_is_started(project: Project) -> None:
    project.write("program.py", "import windlass as wl\nwl.start_trial('inner')\n")
    done = project.run(BIN / "windlass", "run", "program.py")
    assert "which Windlass started" in done.stdout + done.stderr


def test_functions_called_in_an_external_trial_are_separate_trials(project: Project) -> None:
    program = """
        import windlass as wl

        @wl.run
        def inner():
            return wl.current_trial().id

        with wl.start_trial("outer") as trial:
            assert inner() != trial.id == wl.current_trial().id
        print(trial.state)
    """
    project.write("program.py", program)
    done = project.python("program.py")
    assert done.stdout.splitlines()[-1] == "SUCCEEDED", done.stderr


def test_a_program_that_exits_normally_finishes_its_trial(project: Project) -> None:
    begin = "import windlass as wl\nwl.start_trial('forgets')\nwl.report(1, loss=2)\n"
    project.write("program.py", begin)
    assert project.python("program.py").returncode == 0
    trial = named("forgets").wait(PATIENCE)
    assert (trial.state, trial.summary_metrics["loss"].last) == ("SUCCEEDED", 2.0)
    project.write("program.py", begin + "raise ValueError('no data')\n")
    assert project.python("program.py").returncode == 1
    failed = named("forgets").wait(PATIENCE)
    assert failed.state == "FAILED"
    assert failed.error is not None and failed.error.type == "ValueError"


RUNS = """
    import os, signal, sys, time
    import windlass as wl
    trial = wl.start_trial("runs")
    wl.report(1, loss=0.5)
    print("ready")
"""


def test_a_killed_external_trial_is_lost_within_a_minute(started: Any) -> None:
    program = started(RUNS + "    signal.pause()\n")
    trial = named("runs")
    assert trial.state == "RUNNING"
    program.kill()
    assert until_ended(trial) < A_MINUTE
    assert trial.state == "FAILED"
    assert trial.message == "Lost: its process ended without a report"
    assert trial.cause is not None and trial.cause.reason == "Lost"
    assert trial.summary_metrics["loss"].last == 0.5, "what it reported is there"


@pytest.mark.thorough
def test_a_fork_does_not_keep_an_external_trial_alive(started: Any, tmp_path: Path) -> None:
    program = started(
        RUNS
        + f"""
    if os.fork() == 0:
        open({str(tmp_path / "child")!r}, "w").write(str(os.getpid()))
        signal.pause()
    signal.pause()
"""
    )
    eventually((tmp_path / "child").exists, "it forked")
    trial = named("runs")
    try:
        program.kill()
        assert until_ended(trial) < A_MINUTE
        child = int((tmp_path / "child").read_text())
        os.kill(child, 0)  # foreign processes are not killed
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
    assert trial.message.startswith("Lost")


@pytest.mark.thorough
def test_an_external_trial_that_dies_without_a_server_is_lost_at_the_next_start(
    started: Any, home: Path
) -> None:
    program = started(RUNS + "    signal.pause()\n")
    trial = named("runs")
    kill_server(home)
    program.kill()
    program.wait(PATIENCE)
    assert until_ended(trial) < A_MINUTE
    assert trial.message.startswith("Lost")


@pytest.mark.thorough
def test_an_external_trial_continues_without_a_server_and_is_recorded_later(
    started: Any, home: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    program = started(
        RUNS
        + f"""
    while not os.path.exists({str(go)!r}):
        time.sleep(0.01)
    wl.report(2, loss=0.25)
    trial.finish()
    print(trial.state)
"""
    )
    trial = named("runs")
    kill_server(home)
    assert wl.get_trial(trial.id).state == "RUNNING", "a new server has it"
    kill_server(home)
    go.touch()
    assert program.communicate(timeout=PATIENCE)[0].strip() == "SUCCEEDED"
    trial.wait(PATIENCE)
    assert (trial.state, trial.summary_metrics["loss"].count) == ("SUCCEEDED", 2)


@pytest.mark.thorough
def test_an_external_trial_stopped_by_the_kernel_is_not_lost(started: Any, home: Path) -> None:
    """There is no heartbeat, so code that blocks the interpreter has no effect."""
    program = started(RUNS + "    signal.pause()\n")
    trial = named("runs")
    program.send_signal(signal.SIGSTOP)
    try:
        kill_server(home)
        eventually(lambda: wl.server_info().reconciles > 0, "the new server looked at it")
        assert trial.refresh().state == "RUNNING"
    finally:
        program.send_signal(signal.SIGCONT)
    assert trial.refresh().state == "RUNNING"


@pytest.mark.thorough
def test_an_external_trial_that_blocks_the_interpreter_is_not_lost(
    started: Any, home: Path
) -> None:
    """As with a long computation in C, during which no Python thread runs."""
    holds = """
    import ctypes
    sys.stdout.flush()
    ctypes.PyDLL(None).sleep(1000)  # what PyDLL calls keeps the lock of the interpreter
"""
    program = started(RUNS + holds)
    trial = named("runs")
    kill_server(home)
    eventually(lambda: wl.server_info().reconciles > 0, "the new server looked at it")
    assert trial.refresh().state == "RUNNING"
    program.kill()
    assert until_ended(trial) < A_MINUTE
    assert trial.message.startswith("Lost")


@pytest.mark.thorough
def test_an_external_trial_that_closes_inherited_files_is_not_lost(
    started: Any, home: Path, tmp_path: Path
) -> None:
    """As daemons do at their start. A file that it opens later under that descriptor stays open."""
    go = tmp_path / "go"
    program = started(
        RUNS.replace('print("ready")', "")
        + f"""
    os.closerange(3, 65536)
    own = [os.open("own.txt", os.O_RDWR | os.O_CREAT) for _ in range(64)]
    print("ready")
    while not os.path.exists({str(go)!r}):
        time.sleep(0.01)
    wl.report(2, loss=0.25)
    trial.finish()
    assert all(os.fstat(each).st_size == 0 for each in own)
    print(trial.state)
"""
    )
    trial = named("runs")
    kill_server(home)
    eventually(lambda: wl.server_info().reconciles > 0, "the new server looked at it")
    assert trial.refresh().state == "RUNNING"
    go.touch()
    output, complaints = program.communicate(timeout=PATIENCE)
    assert output.strip() == "SUCCEEDED", complaints
    assert trial.refresh().summary_metrics["loss"].count == 2


def test_should_stop_reports_a_stop_of_an_external_trial(started: Any) -> None:
    polite = """
    while not wl.should_stop():
        time.sleep(0.01)
    trial.finish(KeyboardInterrupt())
    print(trial.state)
"""
    program = started(RUNS + polite)
    trial = named("runs")
    trial.stop(grace=PATIENCE).wait(PATIENCE)
    assert trial.state == "STOPPED"
    assert program.communicate(timeout=PATIENCE)[0].strip() == "STOPPED"

    deaf = started(RUNS + "    signal.pause()\n")
    trial = named("runs")
    trial.stop(grace=0).wait(PATIENCE)
    assert trial.state == "STOPPED"
    assert trial.attempts[-1].message.startswith("it did not stop on request")
    assert deaf.poll() is None, "its process is not ours to kill"


def test_a_stopped_and_deleted_external_trial_continues_unharmed(
    started: Any, tmp_path: Path
) -> None:
    """The program is saving a checkpoint while its partial files are deleted."""
    go = tmp_path / "go"
    program = started(
        RUNS
        + f"""
    while not os.path.exists({str(go)!r}):
        open("weights", "wb").write(os.urandom(100_000))
        wl.save_checkpoint("weights", step=1)
        wl.latest_checkpoint()
    wl.report(2, loss=0.25)
    print(wl.save_checkpoint("weights", step=2))
    print(wl.latest_checkpoint())
    trial.finish()
    print("done")
"""
    )
    trial = named("runs")
    eventually(lambda: next(trial.list_checkpoints(), None) is not None, "it saves")
    trial.stop(grace=0).wait(PATIENCE)
    assert program.poll() is None
    trial.delete()
    go.touch()
    output, complaint = program.communicate(timeout=PATIENCE)
    assert output.split() == ["None", "None", "done"], complaint
    assert "Traceback" not in complaint


@pytest.mark.thorough
def test_an_external_trial_whose_process_never_reported_is_lost(home: Path) -> None:
    """The process was killed between the creation of the trial and its start."""
    import uuid

    from windlass.model.hardware.resources import Resources
    from windlass.model.job import ExternalCall, JobSpec, Role
    from windlass.model.records import TrialKind, TrialRecord
    from windlass.model.requests import CreateTrial

    role = Role(executable=ExternalCall(argv=("x",)), resources=Resources(cpus=0))
    request = CreateTrial(
        key=uuid.uuid4().hex,
        kind=TrialKind.EXTERNAL,
        experiment="never",
        spec=JobSpec(roles=(role,)),
    )
    record = wl.Client().transport.ask("POST", "/trials", TrialRecord, body=request)
    trial = wl.get_trial(record.id)
    assert until_ended(trial) < A_MINUTE
    assert trial.message == "Lost: its process never reported its start"


def test_the_command_line_shows_an_external_trial(project: Project) -> None:
    with wl.start_trial("shown", params={"lr": 0.5}) as trial:
        listed = project.run(BIN / "windlass", "ls", "-n", "1").stdout
        assert "shown" in listed and "RUNNING" in listed and "lr=0.5" in listed
        page = project.run(BIN / "windlass", "show", str(trial.id)).stdout
        assert "external: Windlass did not start it" in page
        assert "CPU" not in page
        silent = project.run(BIN / "windlass", "logs", str(trial.id)).stderr
        assert "so its output is not recorded" in silent


def test_an_unsupported_call_on_an_external_trial_suggests_a_supported_one(
    project: Project,
) -> None:
    with wl.start_trial("by-hand") as trial:
        pass
    number = str(trial.id)
    for call in (trial.rerun, trial.continue_, trial.fork):
        with pytest.raises(wl.Unsupported, match="so Windlass cannot start it again") as caught:
            call()
        assert (
            caught.value.hint
            == "Run the program again, or launch it as a trial: windlass run SCRIPT"
        )
    for words, hint in (
        (
            ("continue", number),
            "Run the program again, or launch it as a trial: windlass run SCRIPT",
        ),
        (("result", number), f"See its record: windlass show {number}"),
        (("shell", number), "Run it in a snapshot of this project instead: --code"),
        (("command", "--trial", number, "ls"), "in a snapshot of this project instead: --code"),
        (
            ("command", "-e", str(trial.experiment_id), "ls"),
            "or run it in this project's code: --code",
        ),
    ):
        done = project.run(BIN / "windlass", *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{hint}\n" in done.stderr


def test_a_configured_server_works_if_it_is_on_this_machine(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = wl.server_info()
    monkeypatch.setenv("WINDLASS_SERVER", info.url)
    monkeypatch.setenv("WINDLASS_TOKEN", (home / "token").read_text().strip())
    with wl.start_trial("named") as trial:
        wl.report(0, loss=1)
    assert trial.state == "SUCCEEDED"
