"""Command groups that load commands on demand and suggest fixes for typos."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

_PROGRAMS = ("ls",)  # Windlass commands that are also common programs
_WORDS = "windlass.group-words"
SHOWS_ALL = "windlass.help-all"  # a key in a click context's `meta`

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Group(click.Group):
    """A command group that suggests a similar command for an unknown name.

    `elsewhere` maps other tools' command names to Windlass commands.
    """

    def __init__(self, *args: Any, elsewhere: Mapping[str, str] | None = None, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.elsewhere = elsewhere or {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """Return the command names in order of definition."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command named by the first argument."""
        name = args[0]
        if ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name):
            return super().resolve_command(ctx, args)
        import difflib

        if name in self.elsewhere:
            raise click.UsageError(
                f"There is no command {name!r}. Use: {self.elsewhere[name]}", ctx
            )
        near = difflib.get_close_matches(name, self.list_commands(ctx), n=1, cutoff=0.5)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise click.UsageError(f"There is no command {name!r}.{guess}", ctx)


class DefaultGroup(Group):
    """A group with a default command. For example, `windlass shell 7` means `shell open 7`."""

    def __init__(self, *args: Any, default: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command's name if the first argument does not name a command."""
        is_help = any(word in ctx.help_option_names for word in args[:1])
        if not is_help and not (args and args[0] in self.commands):
            args = [self._default, *args]
        ctx.meta[_WORDS] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command named on the command line.

        For an unknown option after a word that is a common program, the error suggests `--`.
        """
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            words = ctx.meta[_WORDS]
            if words[0] not in _PROGRAMS or error.possibilities:
                raise
            message = f"{error.message.rstrip('.')}. To run the program {words[0]}: "
            message += f"{ctx.command_path} -- {shlex.join(words)}"
            raise click.NoSuchOption(error.option_name, message, ctx=error.ctx) from None


class LazyGroup(Group):
    """A command group whose commands are modules that are imported on demand.

    `sections` maps each help heading to a table of command names and one-line descriptions. Help
    and completion use these tables without importing any command. `folders` maps each heading to
    the subpackage of `package` that contains the commands' modules. To fit on one screen, the help
    describes only the commands in the first section, and just lists the names of all others.
    `--help-all` describes all commands.
    """

    def __init__(
        self,
        *args: Any,
        package: str,
        sections: Mapping[str, Mapping[str, str]],
        folders: Mapping[str, str],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._sections = sections
        self._table = {name: text for table in sections.values() for name, text in table.items()}
        self._modules = {
            name: f"{package}.{folders[heading]}.{name}"
            for heading, table in sections.items()
            for name in table
        }

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """Return the command names in the order of the table."""
        return list(self._table)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 -- click's signature
        cmd_name: str,
    ) -> click.Command | None:
        """Import a command's module and return the command."""
        if cmd_name not in self._modules:
            return None
        command = import_module(self._modules[cmd_name]).command
        assert isinstance(command, click.Command)  # noqa: S101 -- each module in the table has a command
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands first, then the options."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings."""
        width = max(map(len, self._table))
        first = next(iter(self._sections))
        for heading, table in self._sections.items():
            with formatter.section(heading):
                if heading == first or ctx.meta.get(SHOWS_ALL):
                    formatter.write_dl([(name.ljust(width), text) for name, text in table.items()])
                else:
                    formatter.write_text(", ".join(table))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the command names that complete `incomplete`."""
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=text)
            for name, text in self._table.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


def print_full_help(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    """Print the help with all commands and options, for the option `--help-all`."""
    if not value or ctx.resilient_parsing:
        return
    ctx.meta[SHOWS_ALL] = True
    click.echo(ctx.get_help(), color=ctx.color)
    ctx.exit()
