"""Help in sections, for a command with many options."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class SectionedOption(click.Option):
    """An option with the help section that lists it."""

    def __init__(self, *names: Any, section: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.section = section


# Options of other tools and their names in Windlass.
_ELSEWHERE = {
    "--gpu": "--accelerator",
    "--gpus": "--accelerator",
    "--num-gpus": "--accelerator",
    "--image": "--container-image",
}


class SectionedCommand(click.Command):
    """A command whose help lists options by section, in the order of their definition."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments. The error for an option of another tool names the Windlass option."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            meant = _ELSEWHERE.get(error.option_name)
            if meant is None:
                raise
            message = f"No such option {error.option_name!r}. Did you mean {meant!r}?"
            raise click.NoSuchOption(error.option_name, message, ctx=error.ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections, then the options without a section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx)
            if row is not None and isinstance(param, click.Option):
                title = param.section if isinstance(param, SectionedOption) else "Others"
                sections.setdefault(title, []).append(row)
        width = max(len(names) for rows in sections.values() for names, _ in rows)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl([(names.ljust(width), text) for names, text in rows])


def section_options(section: str) -> Callable[..., Callable[[F], F]]:
    """`click.option` for the options of a section."""
    return partial(click.option, cls=SectionedOption, section=section)
