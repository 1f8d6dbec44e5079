"""The `windlass` command itself: what there is, and how errors are told."""

from __future__ import annotations

import sys
from typing import Any

import click

from windlass.cli.groups import LazyGroup
from windlass.version import __version__

COMMANDS = {
    "run": "Run a script or a command as a recorded trial.",
    "ls": "List trials, newest first.",
    "show": "Show everything recorded of a trial.",
    "logs": "Print what a trial wrote.",
    "stop": "Stop trials.",
    "result": "Print the value a trial returned.",
    "accelerators": "List the accelerators there are, and those of this machine.",
    "server": "Start, stop and look at the server of this machine.",
    "doctor": "Check the set-up, and say how to mend it.",
    "completion": "Print the completion script of a shell.",
}


class _Root(LazyGroup):
    """Tells the errors of all commands in the same way."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an error of ours is a message and exit code 1."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(130) from None
        except Exception as error:
            from windlass.model.errors import WindlassError

            if not isinstance(error, WindlassError):
                raise
            from windlass.cli.text import say_error

            sys.stdout.flush()
            say_error(str(error))
            raise click.exceptions.Exit(1) from error


@click.group(
    cls=_Root,
    package="windlass.cli",
    table=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Help on a command: windlass COMMAND --help",
)
@click.version_option(__version__, "--version", message="windlass %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Run functions, scripts and commands as trials, with everything that ran remembered."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
