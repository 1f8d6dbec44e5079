"""Implements `windlass diff`, which compares two trials or two experiments."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TRIAL_OR_EXPERIMENT, json_option

if TYPE_CHECKING:
    from windlass.comparison.diff_text import DiffLine
    from windlass.comparison.experiments import ExperimentDiff
    from windlass.comparison.trials import Diff

_STYLES: dict[str, dict[str, Any]] = {
    "head": {"bold": True},
    "added": {"colour": "green"},
    "removed": {"colour": "red"},
    "hunk": {"colour": "cyan"},
    "dim": {"dim": True},
}


@click.command(
    short_help="Show the differences between two trials or experiments.",
    epilog=examples(
        "windlass diff 3 7",
        "windlass diff 3 7 --code",
        "windlass diff rates rates-long",
    ),
)
@click.argument("one", type=TRIAL_OR_EXPERIMENT, metavar="ONE")
@click.argument("other", type=TRIAL_OR_EXPERIMENT, metavar="OTHER", required=False)
@click.option("--code", is_flag=True, help="Show the changed lines of code.")
@click.option(
    "-e",
    "--experiments",
    is_flag=True,
    help="ONE and OTHER are experiments (implied by names).",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context, one: str, other: str | None, code: bool, experiments: bool, as_json: bool
) -> None:
    """Show the differences between two trials (by id) or two experiments (by name).

    The comparison covers code, arguments, environment, packages, resources, metrics and outcomes.
    """
    if other is None:
        raise click.UsageError(f"Name a second trial or experiment: windlass diff {one} OTHER", ctx)
    numbers = [text.isascii() and text.isdecimal() for text in (one, other)]
    if not experiments and len(set(numbers)) == 2:
        raise click.UsageError(
            f"{one!r} and {other!r} are a trial and an experiment. Compare two trials or "
            "two experiments.",
            ctx,
        )
    is_trials = all(numbers) and not experiments
    diff = _trials(int(one), int(other)) if is_trials else _experiments(one, other)
    if as_json:
        from windlass.cli.output.json import print_json

        print_json(diff.to_dict())
        return
    print_lines(_lines(diff, code=code))
    if not code:
        _mention_code(diff, one, other, "-e " if experiments else "")


def print_lines(lines: Iterable[DiffLine]) -> None:
    """Print styled lines, escaping characters that stdout cannot encode."""
    from windlass.cli.output.text import can_print, paint

    arrow = "→" if can_print("→") else "->"
    for line in lines:
        text = "".join(paint(piece.text, **_STYLES.get(piece.style, {})) for piece in line)
        print(text.replace("→", arrow).rstrip())


def _trials(one: int, other: int) -> Diff:
    from windlass.client.client import default_client
    from windlass.client.resources.comparison import check_ids

    check_ids([one, other])
    client = default_client()
    return client.get_trial(one).diff(client.get_trial(other))


def _experiments(one: str, other: str) -> ExperimentDiff:
    from windlass.client.client import default_client

    client = default_client()
    return client.get_experiment(one).diff(client.get_experiment(other))


def _lines(diff: Diff | ExperimentDiff, *, code: bool) -> Iterable[DiffLine]:
    import shutil

    from windlass.cli.output.text import is_terminal
    from windlass.comparison import diff_text, experiment_diff_text
    from windlass.comparison.trials import Diff

    width = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None
    if isinstance(diff, Diff):
        return diff_text.diff_lines(diff, code=code, width=width)
    return experiment_diff_text.experiment_diff_lines(diff, code=code, width=width)


def _mention_code(diff: Diff | ExperimentDiff, one: str, other: str, option: str) -> None:
    """In a terminal, print a command that shows the changed lines of code."""
    import shlex

    from windlass.cli.output.text import is_terminal, paint
    from windlass.comparison.trials import Diff

    trials = diff if isinstance(diff, Diff) else diff.newest
    if trials is not None and any(file.lines for file in trials.code) and is_terminal(sys.stdout):
        print()
        how = f"windlass diff {option}{shlex.join([one, other])} --code"
        print(paint(f"To see the changed lines of code: {how}", dim=True))
