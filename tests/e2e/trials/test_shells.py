"""Shells on the backend: in a trial's code, with input, output, detaching and attaching."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE, Project, eventually, kill_server, stop_trials
from server_requests import API, Server
from windlass.client.connection.shell_stream import ShellInput, ShellStream, Shown
from windlass.client.resources.shell import Shell
from windlass.worker.shell import output_log

SHARES_HOME = True

Open = Callable[..., Shell]
SH = ["/bin/sh"]


@pytest.fixture(autouse=True)
def at_home(home: Path, project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test uses the server of the file, from a project, and leaves no shell behind."""
    project.write("notes.txt", "of the project\n")
    monkeypatch.chdir(project.path)
    monkeypatch.setenv("PS1", "$ ")
    yield
    stop_trials(home)


def type_line(shell: Shell, line: str, until: str) -> str:
    """Type a line and return the output of the shell up to a text that is not in the line."""
    assert until not in line
    shell.send(f"{line}\n")
    return shell.read(until=until, timeout=PATIENCE)


def test_a_shell_shows_the_output_of_typed_commands_and_ends_with_its_exit_code() -> None:
    shell = wl.open_shell(SH)
    assert "42" in type_line(shell, "echo $((6 * 7))", "42")
    shell.send("exit 3\n")
    assert shell.wait(timeout=PATIENCE).exit_code == 3
    assert repr(shell).startswith(f"<Shell {shell.id} sh: FAILED in")
    shown = b"".join(shell.output())
    assert b"42\r\n" in shown
    assert shown == b"".join(shell.output(follow=True)), "all of it is kept"


def test_a_shell_has_a_terminal_whose_keys_are_signals() -> None:
    shell = wl.open_shell(SH)
    assert "/dev/" in type_line(shell, "tty", "/dev/")
    shell.send("sleep 1000; echo 'I''m back'\n")
    eventually(lambda: "sleep" in _programs(shell), "it sleeps")
    shell.send("\x03")  # Ctrl-C ends the program in it, not the shell
    assert "I'm" not in type_line(shell, "echo '<'$?'>'", "<130>")
    shell.send("\x04")  # Ctrl-D
    assert shell.wait(timeout=PATIENCE).is_finished


def test_a_shell_gets_the_size_of_its_terminal() -> None:
    shell = wl.open_shell(SH, env={"LINES": "5", "COLUMNS": "5"})
    type_line(shell, "echo re''ady", "ready")
    shell.resize(50, 132)
    assert "50 132" in type_line(shell, "stty size", "132")


def test_a_shell_is_in_a_fresh_copy_of_the_code_of_a_trial_with_its_environment(
    project: Project,
) -> None:
    job = wl.Job(
        wl.Command(["sh", "-c", "echo changed > notes.txt"]),
        env={"FLAVOUR": "vanilla"},
        experiment="tasting",
    )
    trial = job.submit()
    trial.wait(timeout=PATIENCE)
    project.write("notes.txt", "edited since\n")
    for how in ({"trial": trial.id}, {"experiment": "tasting"}):
        shell = wl.open_shell(SH, **how)  # type: ignore[arg-type]
        shown = type_line(
            shell, "cat notes.txt; echo '<'$FLAVOUR'>'; command -v python", "bin/python"
        )
        assert "of the project\n<vanilla>\n" in shown, how
        assert os.path.dirname(trial.provenance.executable) + "/python" in shown
        assert shell.experiment == "tasting"
        shell.kill()
    assert [trial.id for trial in wl.get_experiment("tasting").list_trials()] == [trial.id]


def test_a_shell_uses_the_python_of_the_trial_despite_start_up_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "author"
    (home / "other").mkdir(parents=True)
    (home / "other" / "python").write_text("#!/bin/sh\necho another python\n")
    (home / "other" / "python").chmod(0o755)
    (home / ".bashrc").write_text('export PATH="$HOME/other:$PATH" MINE=kept\nPS1="$ "\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SHELL", "/bin/bash")
    shell = wl.open_shell()
    shown = type_line(shell, "python -c 'print(6 * 7)'; echo '<'$MINE'>'", "<kept>")
    assert "42\n<kept>" in shown


def test_without_a_trial_a_shell_is_in_an_empty_folder_or_in_this_project() -> None:
    nowhere = wl.open_shell(SH)
    assert "<>" in type_line(nowhere, "echo '<'$(ls -A)'>'", "<>")
    here = wl.open_shell(SH, code=True)
    assert "of the project" in type_line(here, "cat notes.txt", "of the project")


def test_a_shell_without_a_terminal_reads_its_input_to_the_end() -> None:
    shell = wl.open_shell(SH, terminal=False)
    keys = ShellInput(wl.Client().transport, shell.id)
    script = b"tty; echo read\n"
    assert keys.send(script) == len(script)
    assert shell.read(until="read", timeout=PATIENCE) == "not a tty\nread\n"
    assert keys.send(b"exit 6 # without the end of a line", is_last=True)
    assert shell.wait(timeout=PATIENCE).exit_code == 6


def test_a_large_paste_arrives_whole_and_in_order(tmp_path: Path) -> None:
    file = tmp_path / "pasted"
    text = "".join(f"{number:06d} häßlich\n" for number in range(30_000))
    shell = wl.open_shell(["/bin/sh", "-c", f"stty -echo; echo ready; cat > {file}"])
    shell.read(until="ready", timeout=PATIENCE)
    shell.send(text)
    shell.send("\x04")
    shell.wait(timeout=PATIENCE)
    assert file.read_text() == text


def test_several_clients_see_the_same_and_all_can_type() -> None:
    shell = wl.open_shell(SH)
    other = wl.get_shell(shell.id)
    assert "from one" in type_line(shell, "echo from' 'one", "from one")
    assert "from two" in type_line(other, "echo from' 'two", "from two")
    assert "from one" in b"".join(other.output()).decode()
    assert "from two" in shell.read(until="from two", timeout=PATIENCE)


def test_a_later_viewer_sees_the_current_screen() -> None:
    shell = wl.open_shell(SH)
    type_line(shell, "printf '\\033[?1049h\\033[6nEDI''TOR'", "EDITOR")
    first = next(chunk for chunk in ShellStream(wl.Client().transport, shell.id))
    assert isinstance(first, Shown)
    assert b"\x1b[?1049h" in first.data
    assert first.data.endswith(b"EDITOR$ ") or first.data.endswith(b"EDITOR")
    assert b"\x1b[6n" not in first.data, "nothing that their terminal would answer"


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_shell_continues_while_no_server_runs(home: Path, how: str) -> None:
    shell = wl.open_shell(SH)
    type_line(shell, "kept='still here'; echo re''ady", "ready")
    seen = _Follower(shell)
    if how == "killed":
        kill_server(home)
    else:
        wl.Client().transport.fetch("GET", "/health")
        pid = json.loads((home / "server.json").read_text())["pid"]
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: not (home / "server.json").exists(), "the server has left")
    assert "<still here>" in type_line(shell, 'echo "<$kept>"', "<still here>")
    assert seen.until(b"<still here>"), "its followers continue to follow it"
    shell.send("exit 4\n")
    assert shell.wait(timeout=PATIENCE).exit_code == 4


@pytest.mark.thorough
def test_every_key_is_typed_once_despite_repeated_kills_of_the_server(home: Path) -> None:
    shell = wl.open_shell(["/bin/sh", "-c", "stty raw -echo; echo ready; cat"])
    shell.read(until="ready", timeout=PATIENCE)
    typed = [f"{number:04d} " for number in range(120)]
    chance = random.Random(7)
    for number, line in enumerate(typed):
        killer = None
        if number % 15 == 14:  # somewhere between its request and its response
            pid = json.loads((home / "server.json").read_text())["pid"]
            delay = chance.uniform(0, 0.004)
            killer = threading.Timer(delay, os.kill, (pid, signal.SIGKILL))
            killer.start()
        _send_whatever_happens(shell, line)
        if killer is not None:
            killer.join()
    text = "".join(typed)
    assert shell.read(until=typed[-1].strip(), timeout=PATIENCE).strip() == text.strip()
    shell.kill()


def test_killing_a_shell_ends_all_its_processes(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    shell = wl.open_shell(["/bin/bash", "--norc"])
    type_line(shell, f"nohup sleep 1000 & echo $! > {pid_file}; echo be''gun", "begun")
    pid = int(pid_file.read_text())
    assert shell.kill().state == "STOPPED"
    eventually(lambda: not os.path.exists(f"/proc/{pid}"), "what it started is gone")
    assert not any(running.id == shell.id for running in wl.list_shells(state="RUNNING"))
    with pytest.raises(wl.Conflict, match="has ended"):
        shell.send("too late\n")


def test_an_interactive_shell_that_ignores_the_request_is_hung_up_on() -> None:
    """Shells ignore SIGTERM. They get a hangup, as when a window is closed."""
    shell = wl.open_shell(["/bin/bash", "--norc", "-i"])
    type_line(shell, "echo re''ady", "ready")
    shell.stop(grace="1h").wait(timeout=PATIENCE)
    assert shell.record.signal == "SIGHUP"


def test_a_shell_can_have_a_deadline() -> None:
    shell = wl.open_shell(SH, timeout=0.5)
    shell.wait(timeout=PATIENCE)
    assert (shell.state, shell.record.reason) == ("FAILED", "DeadlineExceeded")


def test_a_shell_ends_with_its_killed_supervisor(home: Path) -> None:
    shell = wl.open_shell(SH)
    type_line(shell, "echo $((6 * 7))", "42")
    state = home / "trials" / str(shell.id) / "main-0" / "1" / "state.json"
    os.kill(json.loads(state.read_text())["supervisor"]["pid"], signal.SIGKILL)
    assert shell.wait(timeout=PATIENCE).state == "FAILED"
    assert "supervisor died" in shell.message
    assert b"42" in b"".join(shell.output()), "what it showed is still there"
    with pytest.raises(wl.Conflict, match="has ended"):
        shell.send("ls\n")


def test_a_missing_program_fails_the_shell_with_a_message() -> None:
    shell = wl.open_shell(["no-such-program"]).wait(timeout=PATIENCE)
    assert (shell.state, shell.exit_code) == ("FAILED", 127)
    assert "no program 'no-such-program'" in shell.message


@pytest.mark.thorough
def test_only_the_end_of_endless_output_is_kept(home: Path) -> None:
    shell = wl.open_shell(["/bin/sh", "-c", "seq 1 2500000; echo the end"])
    shell.wait(timeout=PATIENCE)
    kept = b"".join(shell.output())
    limit = output_log.PIECE * output_log.PIECES
    assert limit - output_log.PIECE < len(kept) <= limit
    assert kept.endswith(b"2499999\r\n2500000\r\nthe end\r\n")
    folder = home / "trials" / str(shell.id) / "main-0" / "1" / output_log.FOLDER
    assert sum(file.stat().st_size for file in folder.iterdir()) == len(kept)


def test_reading_without_output_times_out_and_loses_nothing() -> None:
    shell = wl.open_shell(SH)
    type_line(shell, "echo $((6 * 7))", "42")
    shell.send("echo a''nswer\n")
    with pytest.raises(wl.WaitTimeout, match=f"Shell {shell.id}"):
        shell.read(until="never", timeout=0.3)
    assert "answer" in shell.read(until="answer", timeout=PATIENCE)


@pytest.mark.thorough
def test_input_to_a_program_that_does_not_read_is_refused_at_the_limit() -> None:
    shell = wl.open_shell(["/bin/sh", "-c", "stty raw -echo; echo ready; sleep 1000"])
    shell.read(until="ready", timeout=PATIENCE)
    with pytest.raises(wl.Conflict, match="does not read its input"):
        shell.send("x" * 1_000_000)


def test_shells_are_not_listed_as_trials_or_part_of_an_experiment() -> None:
    trial = wl.Job(wl.Command(["true"]), experiment="with-a-shell").submit()
    trial.wait(timeout=PATIENCE)
    shell = wl.open_shell(SH, trial=trial)
    type_line(shell, "echo $((6 * 7))", "42")
    experiment = wl.get_experiment("with-a-shell")
    assert (experiment.trial_count, experiment.state) == (1, "SUCCEEDED")
    assert shell.id not in {trial.id for trial in wl.list_trials()}
    eventually(lambda: shell.refresh().state == "RUNNING", "it runs")
    assert shell.id in {shell.id for shell in wl.list_shells(state="RUNNING")}
    unpickled = pickle.loads(pickle.dumps(wl.get_shell(shell.id)))
    assert isinstance(unpickled, wl.Shell)
    with pytest.raises(wl.NotFound, match=f"no shell {trial.id}"):
        wl.get_shell(trial.id)
    for change in (unpickled.suspend, lambda: unpickled.scale(2)):
        with pytest.raises(wl.Conflict, match=f"Shell {shell.id} cannot be suspended"):
            change()
    with pytest.raises(wl.Unsupported, match="is a shell"):
        unpickled.rerun()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "output", None, 404),
        ("POST", "input?writer=0011223344556677", b"x", 404),
        ("POST", "size", b'{"rows": 24, "columns": 80}', 404),
    ],
)
def test_a_trial_that_is_not_a_shell_has_no_terminal(
    home: Path, method: str, path: str, body: bytes | None, status: int
) -> None:
    trial = wl.Job(wl.Command(["true"])).submit()
    answered, fault = Server(home).ask(method, f"{API}/shells/{trial.id}/{path}", body)
    assert answered == status
    assert f"no shell {trial.id}" in fault["message"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("input", b"x", 400),
        ("input?writer=ada", b"x", 400),
        ("input?writer=0011223344556677&offset=-1", b"x", 400),
        ("input?writer=0011223344556677", b"x" * 70_000, 413),
        ("input?writer=0011223344556677", b"x" * (5 << 20), 413),
        ("size", b"{}", 400),
        ("size", b'{"rows": 0, "columns": 80}', 400),
        ("size", b'{"rows": 99999, "columns": 80}', 400),
    ],
)
def test_requests_to_a_shell_have_limits(home: Path, path: str, body: bytes, status: int) -> None:
    shell = wl.open_shell(SH)
    answered, fault = Server(home).ask("POST", f"{API}/shells/{shell.id}/{path}", body)
    assert (answered, fault["code"]) == (status, "invalid_argument")


def _send_whatever_happens(shell: Shell, text: str) -> None:
    while True:
        try:
            return shell.send(text)
        except wl.ServerError:
            continue  # the server was killed twice during this request


def _programs(shell: Shell) -> list[str]:
    """The names of all child processes of a shell."""
    marker = f"WINDLASS_REPLICA={shell.record.uid}/".encode()
    outputs = []
    for folder in Path("/proc").iterdir():
        try:
            if marker in (folder / "environ").read_bytes():
                outputs.append((folder / "comm").read_text().strip())
        except OSError:
            continue
    return outputs


class _Follower:
    """A follower of a shell in a separate thread."""

    def __init__(self, shell: Shell) -> None:
        self._stream = ShellStream(wl.Client().transport, shell.id, 0)
        self.seen = b""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        eventually(lambda: bool(self.seen), "it is seen")

    def until(self, text: bytes) -> bool:
        eventually(lambda: text in self.seen, f"{text!r} is seen")
        return True

    def _run(self) -> None:
        for news in self._stream:
            if isinstance(news, Shown):
                self.seen += news.data
