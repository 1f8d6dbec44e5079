"""`windlass command`: small commands beside the trials."""

from __future__ import annotations

import re

import pytest

from cli.shells import Shell


@pytest.fixture
def shell(module_shell: Shell) -> Shell:
    return module_shell


def test_a_command_prints_its_output_and_exits_with_its_code(shell: Shell) -> None:
    assert shell.good("command", "echo", "hello") == "hello\n"
    done = shell("command", "run", "--", "sh", "-c", "echo oh; exit 4")
    assert (done.returncode, done.stdout) == (4, "oh\n")
    assert "failed: exit code 4" in done.stderr


def test_a_program_named_like_a_windlass_command_runs_after_two_dashes(shell: Shell) -> None:
    shell.write("here.txt", "here\n")
    assert shell.good("command", "--code", "--", "ls").split() == ["here.txt"]
    errors = shell("command", "ls", "-la").stderr
    assert "No such option '-l'. To run the program ls: windlass command -- ls -la\n" in errors
    assert "Did you mean '--json'?" in shell("command", "ls", "--jsn").stderr


def test_commands_are_listed_without_trials(shell: Shell) -> None:
    trial = shell.submit("--", "true")
    shell("command", "sh", "-c", "exit 3")
    listed = shell.good("command", "ls")
    assert re.search(r"^ *\d+  sh -c 'exit 3' +FAILED +3 ", listed, re.MULTILINE), listed
    assert all(command["kind"] == "command" for command in shell.json("command", "ls"))
    shown = [trial["id"] for trial in shell.json("ls", "--all")]
    assert trial in shown
    assert not set(shown) & {command["id"] for command in shell.json("command", "ls")}
    named = [experiment["name"] for experiment in shell.json("ls", "--experiments", "--all")]
    assert "true" in named
    assert "" not in named


def test_a_detached_command_can_be_read_and_stopped(shell: Shell) -> None:
    output = shell.good("command", "-d", "sh", "-c", "echo begun; sleep 1000")
    match = re.match(r"Command (\d+) \(sh\) is submitted\.\n", output)
    assert match, output
    assert "STOPPED" not in shell.good("command", "ls", "-s", "running", "-s", "starting")
    assert "is stopped." in shell.good("command", "stop", "--grace", "0", match[1])
    assert shell.good("command", "logs", match[1]) in ("begun\n", "")
    assert "sleep 1000" in shell.good("command", "show", match[1])


def test_invalid_options_are_reported_in_terms_of_the_command_line(shell: Shell) -> None:
    done = shell("command", "--cpus", "-1", "--timeout", "soon", "true")
    assert done.returncode == 1
    assert "--cpus: -1.0 is out of range" in done.stderr
    assert "--timeout: 'soon' is not a duration" in done.stderr
    assert shell("command", "run").returncode == 2
    assert "There is no trial 99999" in shell("command", "--trial", "99999", "true").stderr
