"""What needs no server, and starts none: help, version, completion, mistyped commands."""

from __future__ import annotations

import shutil
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

from cli.shells import WINDLASS, Shell
from windlass.cli.root import COMMANDS
from windlass.version import __version__


def test_help_lists_every_command(shell: Shell) -> None:
    listed = shell.good("--help")
    assert all(f"  {name} " in listed for name in COMMANDS)
    assert shell.good() == listed


def test_help_loads_no_command_and_none_of_what_commands_need(shell: Shell) -> None:
    program = """
        import sys
        sys.argv = ["windlass", "--help"]
        from windlass.cli.main import main
        try:
            main()
        finally:
            loaded = [n for n in sys.modules if n.startswith(("windlass.", "msgspec", "rich"))]
            print(*loaded, file=sys.stderr)
    """
    done = shell.start(sys.executable, "-c", textwrap.dedent(program))
    assert set(done.stderr.split()) == {
        "windlass.cli", "windlass.cli.main", "windlass.cli.root", "windlass.cli.options",
        "windlass.cli.options.lazy_groups", "windlass.version",
    }  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_of_a_command_what_the_command_says_of_itself(name: str) -> None:
    command = import_module(f"windlass.cli.commands.{name}").command
    assert command.short_help == COMMANDS[name]
    assert command.name == "command" or command.name == name


def test_the_version_is_printed(shell: Shell) -> None:
    assert shell.good("--version") == f"windlass {__version__}\n"


def test_a_mistyped_command_gets_the_nearest_one(shell: Shell) -> None:
    done = shell("lgos")
    assert done.returncode == 2
    assert "There is no command 'lgos'. Did you mean 'logs'?" in done.stderr
    assert "Did you mean 'status'?" in shell("server", "statsu").stderr


def test_what_other_tools_have_as_a_command_is_told_as_it_is_written_here(shell: Shell) -> None:
    done = shell("fork", "7")
    assert done.returncode == 2
    assert "There is no command 'fork'. It is: windlass continue ID --fork\n" in done.stderr


def test_an_argument_of_a_trial_that_is_typed_as_an_option_is_told_how_it_is_written(
    shell: Shell,
) -> None:
    for args, why in (
        (["continue", "7", "--epochs", "5"], "with --arg: --arg epochs=5\n"),
        (["rerun", "7", "--max-epochs=a b"], "with --arg: --arg 'max_epochs=a b'\n"),
        (["rerun", "7", "--amp"], "with --arg: --arg amp=VALUE\n"),
        (["rerun", "7", "--detahc"], "No such option '--detahc'. Did you mean '--detach'?\n"),
    ):
        done = shell(*args)
        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr


def test_a_mistyped_id_state_or_option_is_a_usage_error(shell: Shell) -> None:
    for args, why in (
        (["show", "train"], "'train' is no trial id"),
        (["ls", "--state", "faild"], "did you mean failed?"),
        (["ls", "--limt", "3"], "--limit"),
        (["stop", "1", "--grace", "soon"], "'soon' is no duration"),
        (["result", "1", "--raw", "--json"], "do not go together"),
        (["priority", "1", "high"], "'high' is not a valid whole number."),
        (["logs", "1", "--tail", "some"], "'some' is not a valid whole number."),
        (["edit", "1", "-e", "rates"], "the ids of trials, or --experiment NAME, not both."),
    ):
        done = shell(*args)
        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr


def test_nothing_of_this_makes_a_home_or_starts_a_server(own_shell: Shell) -> None:
    for args in (["--help"], ["run", "--help"], ["completion", "bash"], ["--version"]):
        own_shell.good(*args)
    own_shell.good("doctor")
    assert own_shell("server", "status").returncode == 1
    assert own_shell.complete("windlass logs ") == []
    assert not own_shell.home.exists()


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_completion_script_says_where_to_put_it(shell: Shell, name: str) -> None:
    script = shell.good("completion", SHELL=f"/usr/bin/{name}")
    assert f"windlass completion {name}" in script
    assert "_WINDLASS_COMPLETE" in script


def test_completion_for_no_known_shell_names_those_there_are(shell: Shell) -> None:
    done = shell("completion", SHELL="/bin/tcsh")
    assert done.returncode == 2
    assert "Name a shell: bash, zsh, fish." in done.stderr


def test_commands_states_accelerators_and_files_are_completed(shell: Shell) -> None:
    assert shell.complete("windlass s") == [
        "show", "stop", "suspend", "scale", "shell", "server",
    ]  # fmt: skip
    assert shell.complete("windlass server st") == ["start", "stop", "status"]
    assert shell.complete("windlass ls --state s")[:2] == ["starting", "suspended"]
    assert shell.complete("windlass run --accelerator h") == ["h100", "h200"]
    assert shell.complete("windlass run tr") == ["tr"]  # of type file: the shell goes on


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_takes_the_script(shell: Shell) -> None:
    ask = (
        'eval "$(windlass completion bash)"; COMP_WORDS=(windlass l); COMP_CWORD=1;'
        ' _windlass_completion windlass; echo "${COMPREPLY[@]}"'
    )
    path = f"{Path(WINDLASS).parent}:{shell.env['PATH']}"
    assert shell.start("bash", "-c", ask, PATH=path).stdout == "ls logs\n"
