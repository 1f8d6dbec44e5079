"""`windlass shell` in a terminal: attach, detach, attach again, kill."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from cli.shells import WINDLASS, Shell
from cli.terminals import CTRL_C, PATIENCE, Terminal, eventually

DETACH = "\x1d\x1d"  # Ctrl-] twice


@pytest.fixture(scope="module", autouse=True)
def started(module_shell: Shell) -> None:
    """A shell with a short prompt, and a running server."""
    module_shell.env |= {"SHELL": "/bin/sh", "PS1": "% ", "ENV": ""}
    module_shell.write("notes.py", "print('of the project')\n")
    module_shell.good("server", "start")


@pytest.fixture
def shell(module_shell: Shell) -> Shell:
    return module_shell


def at_desk(shell: Shell, line: str) -> Terminal:
    """A terminal that runs `windlass`, then prints the terminal settings and the exit code."""
    typed = f'stty -g; {line.replace("windlass", WINDLASS)}; echo "code=$?"; stty -g'
    return Terminal(["/bin/sh", "-c", typed], env=shell.env, cwd=shell.folder)


def left_as_it_was(terminal: Terminal) -> bool:
    first, *_, last = re.findall(r"[0-9a-f]+(?::[0-9a-f]+){10,}", terminal.text)
    return bool(first == last)


def shell_id(terminal: Terminal) -> str:
    match = re.search(r"Shell (\d+)\. Detach", terminal.text)
    assert match, terminal.text
    return match[1]


def test_an_attached_shell_ends_when_it_exits(shell: Shell) -> None:
    terminal = at_desk(shell, "windlass shell").until("Detach: Ctrl-] twice. End: exit.")
    terminal.until("% ").type("echo $((6 * 7))\r").until("42").type("exit 3\r").until("code=3")
    terminal.end()
    assert left_as_it_was(terminal)


def test_a_shell_has_the_code_of_a_trial_and_the_size_of_the_window(shell: Shell) -> None:
    trial = shell.submit("notes.py")
    with shell.terminal("shell", str(trial), columns=91).closing() as terminal:
        terminal.until("% ").type("python notes.py; stty size\r").until("of the project")
        terminal.until("24 91").resize(40, 100)
        terminal.type("while [ \"$(stty size)\" != '40 100' ]; do :; done; echo 'has ''grown'\r")
        terminal.until("has grown").type("\x04")  # Ctrl-D
        assert terminal.end() == 0


def test_signal_keys_go_to_the_program_in_the_shell(shell: Shell) -> None:
    with shell.terminal("shell", "--", "bash", "--norc", "-i").closing() as terminal:
        # Wait for output of the program itself. While bash is about to start it, a Ctrl-C between
        # fork and exec may get lost.
        terminal.until("% ").type("sh -c 'echo be\"\"gun; exec sleep 1000'\r").until("begun")
        terminal.type(CTRL_C).type("echo '<'$?'>'\r").until("<130>")
        terminal.type("sh -c 'echo be\"\"gun again; exec cat'\r").until("begun again")
        terminal.type("\x1a").until("Stopped")  # Ctrl-Z
        terminal.type("fg\r").until("fg\r\n\rsh -c").type("ech").type("oed\r")
        terminal.until("echoed\r\nechoed").type("\x04").until("echoed\r\n% ").type("exit 5\r")
        assert terminal.end() == 5


def test_a_detached_shell_continues_and_can_be_attached_again(shell: Shell) -> None:
    terminal = at_desk(shell, "windlass shell").until("% ")
    terminal.type("kept=here; echo re''ady\r").until("ready").type(DETACH).until("code=0")
    terminal.end()
    which = shell_id(terminal)
    assert f"Detached from shell {which}, which continues to run." in terminal.text
    assert f"windlass shell kill {which}" in terminal.text
    assert left_as_it_was(terminal)
    running = re.compile(rf"^ *{which}  +\$SHELL +- +RUNNING", re.MULTILINE)
    eventually(lambda: running.search(shell.good("shell", "ls")) is not None, "running")
    with shell.terminal("shell", "attach", which).closing() as again:
        again.until("ready").type('echo "<$kept>"\r').until("<here>").type("exit 4\r")
        assert again.end() == 4
    assert f"Shell {which} has ended: exit 4" in shell("shell", "attach", which).stderr
    shown = shell.good("shell", "show", which)
    assert "<here>" in shown
    assert "\x1b" not in shown


def test_the_list_names_the_trial_whose_code_a_shell_has(shell: Shell) -> None:
    trial_id = shell.submit("--", "true")
    shell.good("logs", str(trial_id), "-f")
    shell.good("shell", str(trial_id), "--", "true")
    listed = shell.good("shell", "ls", "--all")
    assert re.search(rf"^ *\d+  +true +trial {trial_id} +exit 0", listed, re.MULTILINE), listed


def test_a_single_press_of_the_detach_key_reaches_the_shell(shell: Shell) -> None:
    command = "stty raw -echo; echo ready; dd bs=1 count=2 2>/dev/null | od -An -tx1; exit 6"
    with shell.terminal("shell", "--", "sh", "-c", command).closing() as terminal:
        terminal.until("ready").type("\x1dx").until("1d 78")
        assert terminal.end() == 6


def test_detaching_resets_the_terminal_modes_of_a_program(shell: Shell) -> None:
    with shell.terminal("shell").closing() as terminal:
        terminal.until("% ").type("printf '\\033[?1049h\\033[?25lWHO''LE'\r").until("WHOLE")
        terminal.type(DETACH)
        assert terminal.end() == 0
        assert terminal.raw.rindex("\x1b[?1049l") > terminal.raw.rindex("WHOLE")
        assert "\x1b[?25h" in terminal.raw
    which = shell_id(terminal)
    with shell.terminal("shell", "attach", which).closing() as again:
        again.until("WHOLE")
        assert again.raw.index("\x1b[?1049h") < again.raw.index("WHOLE"), "it is a whole screen"
    shell.good("shell", "kill", which)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_the_command_detaches_and_restores_the_terminal(
    shell: Shell, number: signal.Signals
) -> None:
    terminal = at_desk(shell, "windlass shell").until("% ")
    which = shell_id(terminal)
    [pid] = [
        int(folder.name)
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit() and _is_command_of(folder, shell, "shell")
    ]
    os.kill(pid, number)
    terminal.until(f"code={128 + number}")
    terminal.end()
    assert left_as_it_was(terminal)
    assert f"Shell {which} is killed." in shell.good("shell", "kill", which)


def test_closing_the_window_detaches(shell: Shell) -> None:
    terminal = shell.terminal("shell").until("% ")
    which = shell_id(terminal)
    terminal.hang_up()
    assert f"Shell {which} is killed." in shell.good("shell", "kill", which)


def test_an_attached_terminal_reports_that_the_shell_was_killed(shell: Shell) -> None:
    terminal = at_desk(shell, "windlass shell").until("% ")
    which = shell_id(terminal)
    shell.good("shell", "kill", which)
    terminal.until(f"Shell {which} was stopped.")
    terminal.end()
    assert left_as_it_was(terminal)
    assert f"Shell {which} had already ended: killed." in shell.good("shell", "kill", which)


def test_an_attached_terminal_survives_a_restart_of_the_server(shell: Shell) -> None:
    with shell.terminal("shell").closing() as terminal:
        terminal.until("% ").type("echo be''fore\r").until("before")
        os.kill(json.loads((shell.home / "server.json").read_text())["pid"], signal.SIGKILL)
        terminal.type("echo af''ter\r").until("after").type("exit 9\r")
        assert terminal.end() == 9


def test_two_windows_on_one_shell(shell: Shell) -> None:
    with shell.terminal("shell").closing() as one:
        one.until("% ")
        with shell.terminal("shell", "attach").closing() as two:
            two.until("% ").type("echo from' 'two\r").until("from two")
            one.until("from two").type("echo from' 'one\r").until("from one")
            two.until("from one").type("exit 2\r")
            assert (one.end(), two.end()) == (2, 2)


def test_a_piped_script_runs_without_a_terminal(shell: Shell) -> None:
    done = piped(shell, b"echo one; tty; exit 7\n", "shell")
    assert (done.returncode, done.stdout) == (7, b"one\nnot a tty\n")
    assert done.stderr == b""


def test_a_large_piped_script_arrives_whole(shell: Shell) -> None:
    text = b"".join(b"%06d\n" % number for number in range(100_000))
    done = piped(shell, text, "shell", "--", "cat")
    assert done.returncode == 0
    assert done.stdout == text


def test_input_piped_to_a_running_shell_is_typed_there(shell: Shell) -> None:
    match = re.search(r"Shell (\d+) is open", shell.good("shell", "-d"))
    assert match
    done = piped(shell, b"echo ty''ped\n", "shell", "attach", match[1])
    assert done.returncode == 0, done.stderr
    eventually(lambda: "\ntyped\n" in shell.good("shell", "show", match[1]), "it is typed")
    shell.good("shell", "kill", match[1])


def test_ctrl_c_ends_a_piped_script(shell: Shell) -> None:
    process = subprocess.Popen(
        [WINDLASS, "shell", "--", "sh", "-c", "echo begun; sleep 1000"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=shell.env, cwd=shell.folder,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    newest = next(shell.client.list_shells(sort_by="-id", limit=1))
    assert newest.wait(timeout=PATIENCE).state == "STOPPED"


def test_a_queued_shell_says_why_and_can_be_cancelled(shell: Shell) -> None:
    taking = shell.submit("--cpus", "16", "--", "sleep", "1000")
    with shell.terminal("shell", "--cpus", "1").closing() as terminal:
        terminal.until("waits: needs 1 CPU").type(CTRL_C).until("was stopped")
        assert terminal.end() != 0
    shell.good("stop", "--grace", "0", str(taking))


def test_a_shell_that_cannot_open_is_reported(shell: Shell) -> None:
    for args, why in (
        (("shell", "99999"), "There is no trial 99999"),
        (("shell", "-e", "nobody"), "There is no experiment 'nobody'"),
        (("shell", "--cpus", "-1"), "--cpus: -1.0 is out of range"),
        (("shell", "--cpus", "99999"), "needs 99999 CPUs"),
        (("shell", "attach", "99999"), "There is no shell 99999"),
        (("shell", "kill", "99999"), "There is no shell 99999"),
    ):
        done = shell(*args)
        assert done.returncode == 1, args
        assert why in done.stderr, done.stderr
    done = shell("shell", "--", "no-such-program")
    assert done.returncode == 127
    assert "no program 'no-such-program'" in done.stderr
    assert shell("shell", "7", "--trial", "8").returncode == 2


def test_shells_are_listed_as_json(shell: Shell) -> None:
    piped(shell, b"exit 3\n", "shell")
    newest, *_ = shell.json("shell", "ls", "--all")
    assert (newest["kind"], newest["exit_code"]) == ("shell", 3)
    assert "exit 3" in shell.good("shell", "ls", "-a")


def piped(shell: Shell, script: bytes, *args: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [WINDLASS, *args], input=script, capture_output=True, timeout=PATIENCE,
        env=shell.env, cwd=shell.folder, check=False,
    )  # fmt: skip


def _is_command_of(folder: Path, shell: Shell, command: str) -> bool:
    try:
        words = (folder / "cmdline").read_bytes().split(b"\0")
        environ = (folder / "environ").read_bytes()
    except OSError:
        return False
    is_ours = f"WINDLASS_HOME={shell.home}".encode() in environ.split(b"\0")
    return is_ours and WINDLASS.encode() in words and words[-2:] == [command.encode(), b""]
