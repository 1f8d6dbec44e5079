"""Formats the help of commands, with options in sections and with examples."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from windlass.cli.options.lazy_groups import SHOWS_ALL, print_full_help

F = TypeVar("F", bound=Callable[..., Any])


class SectionedOption(click.Option):
    """An option in a help section. If `rare`, it is listed only by `--help-all`."""

    def __init__(self, *names: Any, section: str, rare: bool = False, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.section = section
        self.is_rare = rare


# Maps option names of other tools to the Windlass options.
_ELSEWHERE = {
    "--gpu": "--accelerator",
    "--gpus": "--accelerator",
    "--num-gpus": "--accelerator",
    "--image": "--container-image",
}


class SectionedCommand(click.Command):
    """A command whose help groups its options into sections, in the order of definition."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command's arguments.

        If an option comes from another tool, the error suggests the Windlass option.
        """
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            meant = _ELSEWHERE.get(error.option_name)
            if meant is None:
                raise
            message = f"No such option {error.option_name!r}. Did you mean {meant!r}?"
            raise click.NoSuchOption(error.option_name, message, ctx=error.ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in sections.

        If any options are rare, write only the common ones.
        """
        sections: dict[str, list[tuple[str, str]]] = {}
        has_rare = any(getattr(param, "is_rare", False) for param in self.get_params(ctx))
        is_short = has_rare and not ctx.meta.get(SHOWS_ALL)
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if row is None or (is_short and getattr(param, "is_rare", False)):
                continue
            title = param.section if isinstance(param, SectionedOption) else "Help"
            sections.setdefault("Common options" if is_short else title, []).append(row)
        width = max(len(names) for rows in sections.values() for names, _ in rows)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl([(names.ljust(width), text) for names, text in rows])


def section_options(section: str) -> Callable[..., Callable[[F], F]]:
    """Return a variant of `click.option` that adds options to a section of the help."""
    return partial(click.option, cls=SectionedOption, section=section)


def help_all_option(function: F) -> F:
    """Add `--help-all`, which also lists rare options."""
    return click.option(
        "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=print_full_help,
        help="Show all options and exit.",
    )(function)  # fmt: skip


def examples(*lines: str) -> str:
    r"""Return example commands for the end of the help, protected from wrapping by click.

    >>> print(examples("windlass ls", "windlass ls -e rates").replace("\b", "").strip())
    Examples:
      windlass ls
      windlass ls -e rates
    """
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
