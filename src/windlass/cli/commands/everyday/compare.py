"""Implements `windlass compare`, which shows several trials in one table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TRIAL_ID, experiment_option, json_option

if TYPE_CHECKING:
    from windlass.comparison.tables import Table
    from windlass.model.records import TrialRecord


@click.command(
    short_help="Compare the parameters and metrics of trials side by side.",
    epilog=examples(
        "windlass compare 3 5 7",
        "windlass compare --experiment rates --sort loss",
        "windlass compare --experiment rates --metric loss.min --csv",
    ),
)
@click.argument("trial_ids", type=TRIAL_ID, metavar="[ID]...", nargs=-1)
@experiment_option("All trials of an experiment.")
@click.option(
    "-s",
    "--sort",
    metavar="COLUMN",
    help="Sort by hparams.lr, loss, loss.min, duration, … -NAME: descending.",
)
@click.option(
    "-m",
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Show a metric (last value), or loss.min; repeatable.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    trial_ids: tuple[int, ...],
    experiment: str | None,
    sort: str | None,
    metrics: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show trials side by side: their differing parameters, metrics and outcomes.

    Parameters that are the same in all trials are left out. Return values are shown if they differ
    and are not among the metrics.
    """
    from windlass.comparison.tables import build_table

    if as_csv and as_json:
        raise click.UsageError("--csv and --json cannot be used together.", ctx)
    if bool(trial_ids) == (experiment is not None):
        but = ", not both" if trial_ids else ""
        text = f"Name trials by their ids, or an experiment with --experiment{but}."
        raise click.UsageError(text, ctx)
    records = _records(trial_ids, experiment)
    table = build_table(records, metrics=metrics or None, sort_by=sort)
    if as_json:
        from windlass.cli.output.json import print_json_array

        print_json_array(table.rows)
    elif as_csv:
        _print_csv(table)
    else:
        _print(table, records)


def _records(trial_ids: tuple[int, ...], experiment: str | None) -> list[TrialRecord]:
    from windlass.client.client import default_client
    from windlass.client.resources.comparison import fetch_records, ordinary_records

    client = default_client()
    if experiment is not None:
        return ordinary_records(client.get_experiment(experiment))
    return fetch_records(client.transport, trial_ids)


def _print_csv(table: Table) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table:
        writer.writerow(["" if value is None else value for value in row.values()])


def _print(table: Table, records: list[TrialRecord]) -> None:
    import shutil

    from windlass.cli.output.table import Cell, Column, fit, print_table
    from windlass.cli.output.text import clean, is_terminal, paint, print_message, state_colour
    from windlass.comparison.tables import cell, is_numeric

    if not len(table):
        print_message("It has no trials yet.")
        return
    heads = {"id": "ID", "name": "NAME", "state": "STATE", "seconds": "TOOK", "outcome": "OUTCOME"}
    columns = [
        Column(
            heads.get(name, clean(name)),
            is_number=is_numeric(table.column(name)),
            shrinks=name not in ("id", "state", "seconds"),
        )
        for name in table.columns
    ]
    states = {record.id: record.state for record in records}
    rows = [
        [
            Cell(cell(name, value), state_colour(states[row["id"]]) if name == "state" else "")
            for name, value in row.items()
        ]
        for row in table
    ]
    print_table(columns, rows)
    if is_terminal(sys.stdout):
        widths = fit(columns, rows, shutil.get_terminal_size().columns)
        hidden = [column.head for column, width in zip(columns, widths, strict=True) if not width]
        if hidden:
            text = (
                f"The terminal is too narrow for {', '.join(hidden)}. To print all "
                "columns: --csv or --json"
            )
            print(paint(text, dim=True))
