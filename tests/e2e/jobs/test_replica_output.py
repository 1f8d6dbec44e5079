"""The output of a trial with several replicas: whole lines, each with the name of its replica."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import BIN, PATIENCE, Project, eventually, kill_server
from job_requests import role, submit
from pseudo_terminal import SPINNER, Launch
from windlass.client.resources.trial.trial import Trial
from windlass.model.job import CleanPolicy, RestartPolicy

SHARES_HOME = True

WATCH = """
import sys
from windlass.client.client import Client
from windlass.client.terminal.view import View
from windlass.client.terminal.watch_trial import watch

client = Client()
with View() as view:
    watch(client, client.get_trial(int(sys.argv[1])), view)
"""

# The first starts a line, the second writes one, the first continues: each at its gate.
TURNS = """
stage = {stage!r}
def at(gate): return os.path.join(stage, gate)
if name == "worker-0":
    sys.stdout.write("begun"); sys.stdout.flush()
    touch(at("begun"))
    wait_for(at("end"))
    print(" and ended")
else:
    wait_for(at("begun"))
    wait_for(at("speak"))
    print("\\x1b[31mhello\\x1b[0m")
    print("up\\x1b[A\\x1b[2K\\x1b]0;title\\x07", file=sys.stderr)
    sys.stderr.write("10%\\r20%"); sys.stderr.write("\\r100%\\n")
    touch(at("spoken"))
    wait_for(at("end"))
"""


@pytest.fixture(autouse=True)
def at_home(home: Path) -> None:
    """Every test uses the server of the file."""


@pytest.fixture
def watching(project: Project) -> Path:
    return project.write("watching.py", WATCH)


def turns(stage: Path) -> Trial[Any]:
    program = TURNS.format(stage=str(stage))
    return submit(role(program, "ps", service=False), role(program, "worker", 2))


def test_lines_are_whole_named_and_coloured_and_an_incomplete_one_is_shown(
    launch: Launch, watching: Path, tmp_path: Path
) -> None:
    trial = turns(tmp_path)
    terminal = launch(watching, str(trial.id))
    terminal.wait_for("worker-0 | begun")  # in place of the status line
    (tmp_path / "speak").touch()
    terminal.wait_for("worker-1 | 100%")
    terminal.wait_for("worker-0 | begun")
    (tmp_path / "end").touch()
    assert terminal.finish() == 0
    lines = [line for line in terminal.lines if "succeeded in" not in line]
    assert not [line for line in lines if SPINNER.search(line)]
    assert lines[-1] == "worker-0 | begun and ended"
    expected = ["hello", "up\\x1b]0;title\\x07", "100%"]
    assert sorted(lines[:-1]) == sorted(
        [f"ps-0     | {text}" for text in expected] + [f"worker-1 | {text}" for text in expected]
    )
    for colour, name in ((36, "ps-0     |"), (33, "worker-0 |"), (32, "worker-1 |")):
        assert f"\x1b[{colour}m{name}\x1b[0m ".encode() in terminal.raw
    assert b"\x1b[31mhello\x1b[0m\x1b[0m\r\n" in terminal.raw, "no colour leaks into the next line"


def test_no_colour_disables_all_colours(launch: Launch, watching: Path, tmp_path: Path) -> None:
    (tmp_path / "speak").touch()
    (tmp_path / "end").touch()
    trial = turns(tmp_path)
    terminal = launch(watching, str(trial.id), NO_COLOR="1")
    assert terminal.finish() == 0
    assert "worker-0 | begun and ended" in terminal.lines
    assert b"\x1b[36m" not in terminal.raw


def test_piped_lines_are_named_and_plain(watching: Path, project: Project, tmp_path: Path) -> None:
    (tmp_path / "speak").touch()
    (tmp_path / "end").touch()
    trial = turns(tmp_path)
    done = project.python(watching, str(trial.id))
    expected = [
        "ps-0     | \x1b[31mhello\x1b[0m",
        "worker-0 | begun and ended",
        "worker-1 | \x1b[31mhello\x1b[0m",
    ]
    assert sorted(done.stdout.splitlines()) == expected
    assert "worker-1 | 100%\n" in done.stderr
    logs = project.run(BIN / "windlass", "logs", str(trial.id))
    assert sorted(logs.stdout.splitlines()) == expected
    one = project.run(BIN / "windlass", "logs", str(trial.id), "--role", "ps")
    assert one.stdout == "\x1b[31mhello\x1b[0m\n", "one replica is as it always was"


def test_an_endless_line_is_printed_at_the_end(watching: Path, project: Project) -> None:
    trial = submit(role("sys.stdout.write(f'{name} bye')", "worker", 2)).wait(PATIENCE)
    done = project.python(watching, str(trial.id))
    assert sorted(done.stdout.splitlines()) == [
        "worker-0 | worker-0 bye",
        "worker-1 | worker-1 bye",
    ]


def test_the_status_line_shows_the_number_of_running_and_restarting_replicas(
    launch: Launch, watching: Path, tmp_path: Path
) -> None:
    program = f"""
stage = {str(tmp_path)!r}
if index == 1 and attempt == 1:
    wait_for(os.path.join(stage, "die"))
    sys.exit(3)
if index == 2:
    wait_for(os.path.join(stage, "done"))
    sys.exit(0)
wait_for(os.path.join(stage, "end"))
"""
    trial = submit(
        role(program, "worker", 3, restart_policy=RestartPolicy.ON_FAILURE), backoff_limit=6
    )
    terminal = launch(watching, str(trial.id), columns=80)
    terminal.wait_for(f"trial {trial.id} (mnist) running: 3 replicas")
    (tmp_path / "die").touch()
    terminal.wait_for("restarting (1 of 6): worker-1 (attempt 1) failed with")
    terminal.wait_for("running: 3 replicas")
    (tmp_path / "done").touch()
    terminal.wait_for("running: 2 of 3 replicas run, 1 is done")
    (tmp_path / "end").touch()
    assert terminal.finish() == 0


# Each replica waits at its own gate, which contains its exit code.
GATES = """
gate = os.path.join({stage!r}, f"{{name}}.{{attempt}}")
print("attempt", attempt)
touch(gate + ".here")
wait_for(gate)
print("bye", attempt)
sys.exit(int(open(gate).read()))
"""


def restarting(stage: Path) -> Trial[Any]:
    """Two replicas that restart after each failure, and wait at the gates of the stage."""
    program = GATES.format(stage=str(stage))
    policy = RestartPolicy.ON_FAILURE
    return submit(role(program, "worker", 2, restart_policy=policy), backoff_limit=6)


def end(stage: Path, replica: str, exit_code: int) -> None:
    """End an attempt with this exit code, once it runs."""
    eventually((stage / f"{replica}.here").exists, f"{replica} is there")
    (stage / "code").write_text(str(exit_code))
    (stage / "code").rename(stage / replica)


def test_every_restart_adds_one_line_after_earlier_output(
    launch: Launch, watching: Path, tmp_path: Path
) -> None:
    trial = restarting(tmp_path)
    terminal = launch(watching, str(trial.id), columns=80)
    terminal.wait_for("running: 2 replicas")
    end(tmp_path, "worker-0.1", 3)
    end(tmp_path, "worker-1.1", 4)
    end(tmp_path, "worker-0.2", 3)
    end(tmp_path, "worker-0.3", 0)
    end(tmp_path, "worker-1.2", 0)
    assert terminal.finish() == 0
    lines = terminal.lines
    restart_lines = [line for line in lines if "restart" in line]
    assert sorted(line.partition(";")[0] for line in restart_lines) == [
        "worker-0 (attempt 1) failed with exit code 3",
        "worker-0 (attempt 2) failed with exit code 3",
        "worker-1 (attempt 1) failed with exit code 4",
    ]
    assert [line.partition("; ")[2] for line in restart_lines] == [
        f"restart {n} of 6" for n in (1, 2, 3)
    ]
    for line in restart_lines:
        name, attempt = line[:8], line[18]
        places = [f"{name} | bye {attempt}", line, f"{name} | attempt {int(attempt) + 1}"]
        assert sorted(places, key=lines.index) == places


@pytest.mark.thorough
def test_restarts_are_shown_once_across_a_kill_of_the_server(
    launch: Launch, watching: Path, tmp_path: Path, home: Path
) -> None:
    trial = restarting(tmp_path)
    terminal = launch(watching, str(trial.id), columns=80)
    terminal.wait_for("running: 2 replicas")
    end(tmp_path, "worker-0.1", 3)
    terminal.wait_for("worker-0 (attempt 1) failed with exit code 3; restart 1 of 6")
    kill_server(home)
    end(tmp_path, "worker-1.1", 4)
    terminal.wait_for("worker-1 (attempt 1) failed with exit code 4; restart 2 of 6")
    end(tmp_path, "worker-0.2", 0)
    end(tmp_path, "worker-1.2", 0)
    assert terminal.finish() == 0
    assert [line[-14:] for line in terminal.lines if "; restart" in line] == [
        "restart 1 of 6",
        "restart 2 of 6",
    ]


def test_suspensions_and_size_changes_print_a_line_each(
    launch: Launch, watching: Path, tmp_path: Path
) -> None:
    program = f"wait_for({str(tmp_path / 'end')!r})"
    trial = submit(role(program, "worker", 2))
    called = f"trial {trial.id} (mnist)"
    terminal = launch(watching, str(trial.id), columns=80)
    terminal.wait_for(f"{called} running: 2 replicas")
    trial.scale(worker=3)
    terminal.wait_for(f"{called} is scaled: worker 2 -> 3")
    trial.suspend()
    terminal.wait_for(f"{called} is suspended. To continue: windlass resume {trial.id}")
    trial.resume()
    terminal.wait_for(f"{called} is resumed")
    (tmp_path / "end").touch()
    assert terminal.finish() == 0
    assert [line.partition(";")[0].partition(" in ")[0] for line in terminal.lines] == [
        f"{called} is scaled: worker 2 -> 3",
        f"{called} is suspended. To continue: windlass resume {trial.id}",
        f"{called} is resumed",
        f"{called} succeeded",
    ]


def test_a_growing_trial_prefixes_its_lines_from_then_on(
    launch: Launch, watching: Path, tmp_path: Path
) -> None:
    program = f"print(name, 'is here'); wait_for({str(tmp_path / 'end')!r}); print('over')"
    trial = submit(role(program, "worker", 1))
    terminal = launch(watching, str(trial.id))
    terminal.wait_for("worker-0 is here")
    trial.scale(worker=2)
    terminal.wait_for("worker-1 | worker-1 is here")
    (tmp_path / "end").touch()
    assert terminal.finish() == 0
    assert terminal.lines[0] == "worker-0 is here"
    assert {"worker-0 | over", "worker-1 | over"} <= set(terminal.lines)


# One replica fails once the others are running. The others print a line when they are stopped.
FAREWELL = """
stage = {stage!r}
if index == 0:
    for other in (1, 2):
        wait_for(os.path.join(stage, f"worker-{{other}}"))
    sys.exit(3)
def leave(*_):
    time.sleep(0.2)  # it has something to put in order
    print("told to stop")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
touch(os.path.join(stage, name))
while True:
    time.sleep(0.01)
"""


def test_the_call_returns_when_the_other_replicas_have_ended_too(
    launch: Launch, watching: Path, project: Project, tmp_path: Path
) -> None:
    trial = submit(role(FAREWELL.format(stage=str(tmp_path)), "worker", 3))
    terminal = launch(watching, str(trial.id))
    follower = project.start(BIN / "windlass", "logs", str(trial.id), "-f", "-n", "100")
    lines = [str(line) for line in trial.logs(follow=True)]
    trial.wait(PATIENCE)
    assert trial.state == "FAILED"
    assert [replica.phase for replica in trial.replicas] == ["Failed", "Succeeded", "Succeeded"]
    assert terminal.finish() == 0
    last = ["worker-1 | told to stop", "worker-2 | told to stop"]
    assert [line for line in sorted(terminal.lines) if "told" in line] == last
    assert lines == ["told to stop"] * 2
    shown, _ = follower.communicate(timeout=PATIENCE)
    assert sorted(shown.splitlines()) == last


def test_replicas_that_are_left_running_do_not_delay_the_call(tmp_path: Path) -> None:
    program = FAREWELL.format(stage=str(tmp_path))
    trial = submit(role(program, "worker", 3), clean_policy=CleanPolicy.NONE)
    trial.wait(PATIENCE)
    assert [replica.phase for replica in trial.replicas] == ["Failed", "Running", "Running"]
    trial.stop()
