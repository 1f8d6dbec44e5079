"""Completes the columns of `windlass ls --columns`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem


def complete_columns(
    ctx: click.Context,  # noqa: ARG001 -- click's signature
    param: click.Parameter,  # noqa: ARG001 -- click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Complete the last name in a list of columns, with the values of recent trials."""
    from click.shell_completion import CompletionItem

    from windlass.cli.options.server_probe import recent_trials
    from windlass.display.trial_columns import column_names

    before, comma, begun = incomplete.rpartition(",")
    trials = recent_trials()
    metrics = [name for trial in trials for name in trial.metrics]
    params = [f"hparams.{name}" for trial in trials for name in trial.params]
    names = dict.fromkeys([*metrics, *params, *column_names()])
    return [CompletionItem(f"{before}{comma}{name}") for name in names if name.startswith(begun)]
