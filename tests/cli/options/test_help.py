"""Help, version, completion and typing errors, which start no server."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.shells import WINDLASS, Shell
from windlass.cli.root import COMMANDS, SECTIONS, cli
from windlass.version import __version__

SCREEN = 40  # lines


def test_help_lists_every_command(shell: Shell) -> None:
    listed = shell.good("--help")
    assert set(COMMANDS) <= set(re.findall(r"[\w-]+", listed))
    assert shell.good() == listed
    described = shell.good("--help-all")
    for name, text in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(text)}$", described, re.MULTILINE), name


def test_help_loads_no_command_and_no_dependency_of_commands(shell: Shell) -> None:
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


def test_help_groups_the_commands_and_starts_with_common_ones() -> None:
    text = help_of(*next(commands(cli, "windlass")))
    positions = [text.index(f"\n{heading}:\n") for heading in SECTIONS]
    assert positions == sorted(positions)
    assert list(SECTIONS) == [
        "Everyday commands", "Running trials and jobs", "Records and files",
        "Projects and templates", "Server and clusters",
    ]  # fmt: skip
    assert len(SECTIONS["Everyday commands"]) == 10


def test_every_help_text_fits_one_screen_and_ends_with_an_example() -> None:
    for command, ctx in commands(cli, "windlass"):
        name, text = ctx.command_path, help_of(command, ctx)
        lines = text.splitlines()
        assert len(lines) <= SCREEN, f"{name}: {len(lines)} lines"
        assert max(map(len, lines)) <= 80, name
        assert "\n  Example" in text, f"{name} has no example"


def test_every_example_is_a_command_with_options_that_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").touch()
    for command, ctx in commands(cli, "windlass"):
        _, heading, examples = help_of(command, ctx).partition("\n  Examples:\n")
        for line in examples.splitlines() if heading else ():
            typed = line.partition("windlass ")[2].partition(" |")[0].removesuffix(')"')
            words = shlex.split(typed)
            assert words, line
            parse(line, words)


def test_help_all_lists_the_rare_options_too(shell: Shell) -> None:
    short, full = shell.good("run", "--help"), shell.good("run", "--help-all")
    assert "--ttl-after-finished" not in short
    assert "--help-all" in short
    assert "--ttl-after-finished" in full


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_and_the_help_of_a_command_agree(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command
    assert command.short_help == COMMANDS[name]
    assert command.name == "command" or command.name == name


def test_the_version_is_printed(shell: Shell) -> None:
    assert shell.good("--version") == f"windlass {__version__}\n"


def test_a_mistyped_command_gets_the_nearest_one(shell: Shell) -> None:
    done = shell("lgos")
    assert done.returncode == 2
    assert "There is no command 'lgos'. Did you mean 'logs'?" in done.stderr
    assert "Did you mean 'status'?" in shell("server", "statsu").stderr


def test_a_command_of_another_tool_gets_its_windlass_name(shell: Shell) -> None:
    done = shell("fork", "7")
    assert done.returncode == 2
    assert "There is no command 'fork'. Use: windlass continue ID --fork\n" in done.stderr


def test_an_argument_of_a_trial_typed_as_an_option_is_explained(
    shell: Shell,
) -> None:
    for args, why in (
        (["continue", "7", "--epochs", "5"], "use --arg: --arg epochs=5\n"),
        (["rerun", "7", "--max-epochs=a b"], "use --arg: --arg 'max_epochs=a b'\n"),
        (["rerun", "7", "--amp"], "use --arg: --arg amp=VALUE\n"),
        (["rerun", "7", "--detahc"], "No such option '--detahc'. Did you mean '--detach'?\n"),
    ):
        done = shell(*args)
        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr


def test_a_mistyped_id_state_or_option_is_a_usage_error(shell: Shell) -> None:
    for args, why in (
        (["show", "train"], "'train' is not a trial id"),
        (["ls", "--state", "faild"], "did you mean failed?"),
        (["ls", "--limt", "3"], "--limit"),
        (["stop", "1", "--grace", "soon"], "'soon' is not a duration"),
        (["result", "1", "--raw", "--json"], "cannot be used together"),
        (["priority", "1", "high"], "'high' is not a valid whole number."),
        (["logs", "1", "--tail", "some"], "'some' is not a valid whole number."),
        (
            ["edit", "1", "-e", "rates"],
            "Name the trials by their ids, or an experiment: --experiment NAME, not both.",
        ),
    ):
        done = shell(*args)
        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr


def test_no_home_is_created_and_no_server_started(own_shell: Shell) -> None:
    for args in (["--help"], ["run", "--help"], ["completion", "bash"], ["--version"]):
        own_shell.good(*args)
    own_shell.good("doctor")
    assert own_shell("server", "status").returncode == 1
    assert own_shell.complete("windlass logs ") == []
    assert not own_shell.home.exists()


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_completion_script_says_where_to_install_it(shell: Shell, name: str) -> None:
    script = shell.good("completion", SHELL=f"/usr/bin/{name}")
    assert f"windlass completion {name}" in script
    assert "_WINDLASS_COMPLETE" in script


def test_completion_for_an_unknown_shell_lists_known_shells(shell: Shell) -> None:
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
    assert shell.complete("windlass run tr") == ["tr"]  # of type file: the shell completes it


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_loads_the_script(shell: Shell) -> None:
    ask = (
        'eval "$(windlass completion bash)"; COMP_WORDS=(windlass l); COMP_CWORD=1;'
        ' _windlass_completion windlass; echo "${COMPREPLY[@]}"'
    )
    path = f"{Path(WINDLASS).parent}:{shell.env['PATH']}"
    assert shell.start("bash", "-c", ask, PATH=path).stdout == "ls logs\n"


def commands(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[tuple[click.Command, click.Context]]:
    """A command and all its subcommands, each with a context for a terminal of 80 columns."""
    ctx = click.Context(
        command, parent, name, terminal_width=78, **command.context_settings
    )  # click leaves two columns free
    yield command, ctx
    if isinstance(command, click.Group):
        for child in command.list_commands(ctx):
            subcommand = command.get_command(ctx, child)
            assert subcommand is not None
            yield from commands(subcommand, child, ctx)


def help_of(command: click.Command, ctx: click.Context) -> str:
    return command.get_help(ctx)


def parse(line: str, words: list[str]) -> None:
    """Parse the words of an example as the command line does, and run nothing."""
    command: click.Command = cli
    parent = None
    while isinstance(command, click.Group):
        ctx = command.make_context(command.name, words, parent)
        words = [*ctx._protected_args, *ctx.args]
        if not words:
            return
        _, child, words = command.resolve_command(ctx, words)
        assert child is not None, line
        command, parent = child, ctx
    command.make_context(command.name, words, parent)
