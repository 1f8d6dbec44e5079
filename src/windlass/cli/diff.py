"""`windlass diff`: what differs between two trials, or two experiments."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.parameters import TRIAL_OR_EXPERIMENT, json_option

if TYPE_CHECKING:
    from windlass.comparing.experiments import ExperimentDiff
    from windlass.comparing.trials import Diff
    from windlass.comparing.wording import Line

_STYLES: dict[str, dict[str, Any]] = {
    "head": {"bold": True},
    "added": {"colour": "green"},
    "removed": {"colour": "red"},
    "hunk": {"colour": "cyan"},
    "dim": {"dim": True},
}


@click.command(short_help="Show what differs between two trials.")
@click.argument("one", type=TRIAL_OR_EXPERIMENT, metavar="ONE")
@click.argument("other", type=TRIAL_OR_EXPERIMENT, metavar="OTHER", required=False)
@click.option("--code", is_flag=True, help="Show the lines of code that differ, too.")
@click.option(
    "-e",
    "--experiments",
    is_flag=True,
    help="Two experiments, by names or ids; names alone say so, too.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context, one: str, other: str | None, code: bool, experiments: bool, as_json: bool
) -> None:
    """Show what differs between two trials (by their ids) or two experiments (by their names).

    Code, arguments, environment, packages, resources, metrics, outcome: what is the same is not
    shown.
    """
    if other is None:
        raise click.UsageError(f"It takes two: windlass diff {one} OTHER.", ctx)
    numbers = [each.isascii() and each.isdecimal() for each in (one, other)]
    if not experiments and len(set(numbers)) == 2:
        raise click.UsageError(
            f"{one!r} and {other!r} are a trial and an experiment: compare two of a kind.", ctx
        )
    is_trials = all(numbers) and not experiments
    diff = _trials(int(one), int(other)) if is_trials else _experiments(one, other)
    if as_json:
        from windlass.cli.machine import print_json

        print_json(diff.to_dict())
        return
    print_lines(_lines(diff, code=code))
    if not code:
        _mention_code(diff, one, other, "-e " if experiments else "")


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines, each piece in its style, with signs that stdout has."""
    from windlass.cli.text import can_print, paint

    arrow = "→" if can_print("→") else "->"
    for line in lines:
        text = "".join(paint(piece.text, **_STYLES.get(piece.style, {})) for piece in line)
        print(text.replace("→", arrow).rstrip())


def _trials(one: int, other: int) -> Diff:
    from windlass.client.comparison import check_ids
    from windlass.client.session import default_client

    check_ids([one, other])
    client = default_client()
    return client.get_trial(one).diff(client.get_trial(other))


def _experiments(one: str, other: str) -> ExperimentDiff:
    from windlass.client.session import default_client

    client = default_client()
    return client.get_experiment(one).diff(client.get_experiment(other))


def _lines(diff: Diff | ExperimentDiff, *, code: bool) -> Iterable[Line]:
    import shutil

    from windlass.cli.text import is_terminal
    from windlass.comparing import experiment_wording, wording
    from windlass.comparing.trials import Diff

    width = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None
    if isinstance(diff, Diff):
        return wording.lines_of(diff, code=code, width=width)
    return experiment_wording.lines_of(diff, code=code, width=width)


def _mention_code(diff: Diff | ExperimentDiff, one: str, other: str, option: str) -> None:
    """Say how the lines can be seen, to whoever looks at a terminal."""
    import shlex

    from windlass.cli.text import is_terminal, paint
    from windlass.comparing.trials import Diff

    trials = diff if isinstance(diff, Diff) else diff.newest
    if trials is not None and any(file.lines for file in trials.code) and is_terminal(sys.stdout):
        print()
        how = f"windlass diff {option}{shlex.join([one, other])} --code"
        print(paint(f"The lines of code that differ: {how}", dim=True))
