"""The output in a terminal, and the effect of Ctrl-C."""

from __future__ import annotations

import os

import pytest

from cli.shells import Shell
from cli.terminals import CTRL_C

WAIT = """
    import os, sys
    print("begun", flush=True)
    print("more", file=sys.stderr, flush=True)
    open(sys.argv[1]).read()
    print("ended")
"""
DEAF = """
    import os, signal
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.write(1, b"begun\\n")
    while True:
        signal.pause()
"""


@pytest.fixture(scope="module", autouse=True)
def scripts(shell: Shell) -> None:
    """A script that waits for a file, and one that ignores signals."""
    shell.write("wait.py", WAIT)
    shell.write("deaf.py", DEAF)
    shell.good("server", "start")


@pytest.fixture
def gate(shell: Shell) -> str:
    """The file that a script waits for."""
    path = shell.folder.parent / "gate"
    if not path.exists():
        os.mkfifo(path)
    return str(path)


def test_output_appears_as_it_is_written_above_a_status_line(shell: Shell, gate: str) -> None:
    terminal = shell.terminal("run", "wait.py", gate)
    terminal.until("begun").until("more").until("(wait) running")
    with open(gate, "w"):
        pass
    assert terminal.end() == 0
    assert [line for line in terminal.lines if "trial" not in line] == ["begun", "more", "ended"]
    assert "succeeded in" in terminal.lines[-1]


def test_following_a_log_shows_the_state_of_the_trial(shell: Shell, gate: str) -> None:
    shell.write("mute.py", "import sys; open(sys.argv[1]).read(); print('at last')")
    trial_id = str(shell.submit("--suspend", "mute.py", gate))
    follower = shell.terminal("logs", "-f", trial_id).until(f"trial {trial_id} (mute) suspended")
    tail = shell.terminal("logs", "-f", "-n", "5", trial_id)
    tail.until(f"trial {trial_id} (mute) suspended")
    shell.good("resume", trial_id)
    follower.until(f"trial {trial_id} (mute) running")
    with open(gate, "w"):
        pass
    assert (follower.end(), tail.end()) == (0, 0)
    assert follower.lines == tail.lines == ["at last"]
    piped = shell("logs", "-f", trial_id)
    assert (piped.stdout, piped.stderr) == ("at last\n", "")


def test_windlass_options_after_the_script_are_pointed_out(shell: Shell) -> None:
    shell.write("echoes.py", "import sys; print(sys.argv[1:])")
    after = ["--replicas", "2", "--spot", "--lr=1", "--cpus=3", "-f", "x", "--", "--memory", "1"]
    terminal = shell.terminal("run", "echoes.py", *after)
    assert terminal.end() == 0
    assert " ".join(terminal.lines[:2]) == (
        "--replicas 2 --spot --cpus=3 go to echoes.py; for Windlass, put them before the script "
        + str(after)
    )
    shell.write("own.py", "import sys; print(sys.argv[sys.argv.index('--replicas') + 1])")
    for words in (["own.py", "--replicas", "2"], ["--", "echo", "--replicas"], ["echoes.py", "-f"]):
        terminal = shell.terminal("run", *words)
        assert terminal.end() == 0
        assert "for Windlass" not in terminal.text
    assert shell("run", "echoes.py", "--replicas", "2").stderr == ""


WILD = "\x1b[31mcrimson\x1b[0m 10%\r20%\x1b[K "


def test_output_may_use_colours_but_not_control_the_terminal(shell: Shell) -> None:
    """No title, no cleared screen, no query that the terminal would answer as if typed."""
    moving = "\x1b[1A\x1b[1B\x1b[2E\x1b[F"
    title, clipboard = "\x1b]0;title\x07", "\x1b]52;c;cm0gLXJmIH4=\x07"
    tamed = f"{title}{clipboard}\x1b[2J\x1b[6n\x1b[?1049h\x1b[5;5H\x9b5n\x1bc\x00"
    shell.write("wild.py", f"print({WILD + moving + tamed!r})")
    trial_id = str(shell.submit("wild.py"))
    escaped = tamed.encode("unicode_escape").decode()
    terminal = shell.terminal("logs", "-f", trial_id)
    assert terminal.end() == 0
    assert terminal.raw == f"{WILD}{escaped}\r\n"
    output = shell.terminal("logs", "--search", "crimson")
    assert output.end() == 0
    assert f"10%\\r20% {escaped}\x1b[0m\r\n" in output.raw
    for option in (["--raw"], ["-f", "--raw"]):
        terminal = shell.terminal("logs", trial_id, *option)
        assert terminal.end() == 0
        assert f"{WILD}{moving}{tamed}\r\n" in terminal.raw
    # A pipe gets the original bytes. `subprocess` reads all kinds of line ends as one.
    written = (WILD + moving + tamed + "\n").replace("\r", "\n")
    assert shell.good("logs", trial_id) == written
    assert shell.good("logs", "--search", "crimson").count(written) == 1


def test_output_of_your_own_run_may_draw_several_progress_bars(shell: Shell) -> None:
    bars = f"{WILD}\x1b[1A\x1b[1B"
    shell.write("bars.py", f"print({bars!r}, end='\\n\\x1b]0;title\\x07')")
    terminal = shell.terminal("run", "bars.py")
    assert terminal.end() == 0
    assert bars in terminal.raw
    assert "\x1b]" not in terminal.raw


def test_colours_are_reset_after_a_log(shell: Shell) -> None:
    """Otherwise the prompt would be red, or typed text would be invisible."""
    shell.write("hides.py", r"print('plain \x1b[0;8mhidden')")
    trial_id = str(shell.submit("hides.py"))
    shell.good("logs", "-f", trial_id)
    terminal = shell.terminal("logs", trial_id)
    assert terminal.end() == 0
    assert terminal.raw == "plain \x1b[0;8mhidden\r\n\x1b[0m"


def test_a_tip_contains_no_terminal_control_sequences(shell: Shell) -> None:
    shell.write("lacks.py", """raise ModuleNotFoundError("No module named 'a\\x1b]0;b'")""")
    terminal = shell.terminal("run", "lacks.py")
    assert terminal.end() == 1
    assert "failed: exit code 1." in terminal.text
    assert "\x1b]" not in terminal.raw


def test_no_colour_disables_all_colours(shell: Shell) -> None:
    terminal = shell.terminal("run", "--", "echo", "plain", NO_COLOR="1")
    assert terminal.end() == 0
    assert "\x1b[3" not in terminal.raw
    assert "\x1b[2m" not in terminal.raw


def test_ctrl_c_stops_the_trial_and_reports_it(shell: Shell, gate: str) -> None:
    terminal = shell.terminal("run", "wait.py", gate).until("begun").type(CTRL_C)
    assert terminal.end() == 130
    trial = shell.newest()
    assert f"Stopping trial {trial.id}" in terminal.text
    assert f"Trial {trial.id} (wait) was stopped" in terminal.text
    assert trial.state.value == "STOPPED"
    assert terminal.text.count("Traceback") == 1, "only that of the script's KeyboardInterrupt"


def test_a_second_ctrl_c_exits_at_once(shell: Shell) -> None:
    terminal = shell.terminal("run", "deaf.py").until("begun").type(CTRL_C)
    terminal.until("(deaf) stopping").type(CTRL_C)
    assert terminal.end() == 130
    trial = shell.newest()
    assert trial.state.value == "STOPPING"
    assert f"windlass show {trial.id}" in terminal.text
    assert "Traceback" not in terminal.text


def test_ctrl_c_while_following_stops_nothing(shell: Shell, gate: str) -> None:
    trial_id = shell.submit("wait.py", gate)
    terminal = shell.terminal("logs", "-f", str(trial_id)).until("begun").type(CTRL_C)
    assert terminal.end() == 130
    assert f"Trial {trial_id} (wait) continues to run." in terminal.text
    assert "Traceback" not in terminal.text
    follower = shell.terminal("logs", "-f", "-n", "0", str(trial_id))
    with open(gate, "w"):
        pass
    assert follower.end() == 0
    assert shell.trial(trial_id).state.value == "SUCCEEDED"


def test_following_shows_a_progress_bar_while_it_moves(shell: Shell, gate: str) -> None:
    shell.write("bar.py", r"""
        import sys
        print("\r10%", end="", flush=True)
        open(sys.argv[1]).read()
        print("\r20%")
    """)  # fmt: skip
    trial_id = shell.submit("bar.py", gate)
    terminal = shell.terminal("logs", "-f", str(trial_id)).until("10%")
    with open(gate, "w"):
        pass
    assert terminal.end() == 0
    assert "\r10%\r20%" in terminal.raw


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_a_table_fits_the_terminal(shell: Shell, columns: int) -> None:
    long = "x" * 300
    if columns == 40:
        shell.good("run", "--name", "a-rather-long-name", "--", "echo", f"--word={long}")
    terminal = shell.terminal("ls", columns=columns)
    assert terminal.end() == 0
    table = [line for line in terminal.lines if not line.startswith("The newest")]
    assert max(map(len, table)) <= columns
    assert "STATE" in table[0]
    assert "\x1b[32mSUCCEEDED" in terminal.raw
    if columns == 80:
        assert "…" in terminal.text


def test_a_truncated_list_is_marked(shell: Shell) -> None:
    shell.good("run", "--", "true")
    terminal = shell.terminal("ls", "-n", "1", NO_COLOR="1")
    assert terminal.end() == 0
    assert terminal.lines[-1] == "The newest 1 trial. All of them: windlass ls --all"
    assert "\x1b[" not in terminal.raw


def test_raw_bytes_are_not_written_to_a_terminal(shell: Shell) -> None:
    terminal = shell.terminal("result", "1", "--raw")
    assert terminal.end() == 2
    assert "--out value.pkl" in terminal.text


def test_errors_and_findings_are_coloured(shell: Shell) -> None:
    terminal = shell.terminal("show", "9999")
    assert terminal.end() == 1
    assert "\x1b[31m\x1b[1mError:\x1b[0m There is no trial 9999." in terminal.raw
    terminal = shell.terminal("doctor")
    assert terminal.end() == 0
    assert "\x1b[32m\x1b[1m✓\x1b[0m Python" in terminal.raw
