"""Implements `windlass ls`, which lists trials and experiments.

The columns are in `display/trial_columns.py` and `display/experiment_columns.py`.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from windlass.cli.options.complete_columns import complete_columns
from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import STATE, WholeNumber, experiment_option, json_option
from windlass.cli.options.resource_commands import archived_option, complete_names

if TYPE_CHECKING:
    from windlass.client.client import Client
    from windlass.client.resources.experiment.experiment import Experiment
    from windlass.model.records import TrialRecord

_NOTHING = """Nothing has run here yet. Run a script:
  windlass run train.py --lr 0.1
or decorate a function with @wl.run and call it."""

_NAMESAKES = 20


@click.command(
    short_help="List trials, newest first.",
    epilog=examples(
        "windlass ls --state failed --since 1d",
        "windlass ls -e rates --sort loss",
        "windlass ls --columns id,state,hparams.lr,loss,loss.min",
        'windlass ls --where "hparams.lr < 0.1 and metrics.loss.min < 0.3"',
        "windlass ls --experiments",
    ),
)
@experiment_option("Trials of an experiment (name or id).")
@click.option(
    "-s", "--state", "states", multiple=True, type=STATE, help="Trials in a state; repeatable."
)
@click.option(
    "-l",
    "--label",
    "labels",
    multiple=True,
    metavar="TEXT",
    help="Trials with a label; repeatable.",
)
@click.option(
    "-w",
    "--where",
    metavar="TEXT",
    help='Trials that match a condition: "metrics.loss < 0.3".',
)
@click.option(
    "--sort",
    metavar="NAME",
    help="Sort by created, duration, hparams.lr, loss, loss.min, … -NAME: descending.",
)
@click.option(
    "-c",
    "--columns",
    metavar="NAME,...",
    shell_complete=complete_columns,
    help="Print these columns: id, state, hparams.lr, loss, loss.min, host, …",
)
@click.option("-u", "--user", metavar="NAME", help="Trials of a user.")
@click.option(
    "-k",
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Trials of a kind: job, external, command, shell.",
)
@click.option("--since", metavar="TIME", help="Trials submitted since then: 2h (ago), 2026-11-16.")
@click.option(
    "-n",
    "--limit",
    type=WholeNumber(min=1),
    default=20,
    metavar="N",
    help="Maximum number of rows (20).",
)
@click.option("-a", "--all", "everything", is_flag=True, help="No maximum.")
@click.option(
    "-p", "--project", metavar="NAME", shell_complete=complete_names("projects"),
    help="Trials of a project: vision, lab/vision.",
)  # fmt: skip
@archived_option
@click.option("--experiments", is_flag=True, help="List experiments instead of trials.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    experiment: str | None,
    states: tuple[str, ...],
    labels: tuple[str, ...],
    where: str | None,
    sort: str | None,
    columns: str | None,
    user: str | None,
    kinds: tuple[str, ...],
    since: str | None,
    limit: int,
    everything: bool,
    project: str | None,
    archived: bool,
    experiments: bool,
    as_json: bool,
) -> None:
    """List trials, newest first, with state, parameters and outcome."""
    from windlass.client.client import default_client

    if experiments and (experiment or where or kinds or since or columns):
        raise click.UsageError(
            "With --experiments the filters are --state, --label, --user, --project, --archived.",
            ctx,
        )
    wanted = None if everything else limit
    if experiments:
        chosen = {
            "state": list(states) or None,
            "labels": labels or None,
            "user": user,
            "project": project,
            "archived": archived,
        }
        _list_experiments(default_client(), chosen, sort or "-id", wanted, as_json=as_json)
    else:
        query = TrialQuery(
            experiment, list(states), labels, where, user, list(kinds), since, project, archived,
            sort, columns,
        )  # fmt: skip
        _list_trials(default_client(), query, wanted, as_json=as_json)


class TrialQuery(NamedTuple):
    """The filters of `windlass ls` that apply to trials."""

    experiment: str | None
    states: list[str]
    labels: tuple[str, ...]
    where: str | None
    user: str | None
    kinds: list[str]
    since: str | None
    project: str | None
    archived: bool
    sort: str | None  # not a filter
    columns: str | None  # not a filter


def _list_trials(client: Client, query: TrialQuery, limit: int | None, *, as_json: bool) -> None:
    from windlass.cli.output.json import print_json_array
    from windlass.cli.output.table import print_table
    from windlass.cli.output.text import is_terminal, paint, print_message, warnings_as_messages
    from windlass.client.resources.trial.list_query import list_trials
    from windlass.display.trial_columns import trial_columns, trial_row

    experiment = query.experiment
    # Request one trial more than the limit, to find out whether there are more.
    trials = list_trials(
        client.transport,
        experiment=experiment,
        state=query.states or None,
        labels=query.labels,
        where=query.where,
        user=query.user,
        kind=query.kinds,
        created_after=query.since,
        project=query.project,
        # An experiment given by name is listed even if it is archived.
        archived=True if query.archived else None if experiment is not None else False,
        sort_by=query.sort or "-id",
        limit=limit and limit + 1,
    )
    with warnings_as_messages():
        first = next(trials, None)
    if as_json:
        rest = itertools.chain(() if first is None else (first,), trials)
        print_json_array(trial.record for trial in itertools.islice(rest, limit))
        return
    if first is None:
        is_filtered = any(query[:-2]) or _has_archived(client)
        print_message(
            "No trial matches. To list all trials: windlass ls --all" if is_filtered else _NOTHING
        )
        return
    records = [first.record, *(trial.record for trial in trials)]
    now = time.time()
    shown = records[:limit]
    columns = trial_columns(_column_names(query, shown))
    print_table(
        [column.column for column in columns],
        [trial_row(columns, record, now) for record in shown],
    )
    _mention_rest(len(records), limit, "trial", "windlass ls --all", is_sorted=bool(query.sort))
    named = _find_experiments(client, experiment) if is_terminal(sys.stdout) else []
    if len(named) > 1:
        several = ", ".join(str(experiment.id) for experiment in reversed(named))
        text = f"Several experiments have this name: {several}. One: windlass ls -e {named[0].id}"
        print(paint(text, dim=True))


def _column_names(query: TrialQuery, records: Sequence[TrialRecord]) -> list[str]:
    """Return the names of the requested columns, or else the default columns for these trials."""
    from windlass.display.trial_columns import default_names, sorted_metric

    if query.columns:
        return _split_names(query.columns, records)
    names = default_names(records)
    if sorted_metric(query.sort or "") is not None:
        names.insert(names.index("outcome"), (query.sort or "").removeprefix("-"))
    return names


def _split_names(columns: str, records: Sequence[TrialRecord]) -> list[str]:
    """Split a list of column names. A parameter's name also works without `hparams.`."""
    from windlass.display.trial_columns import column_names, sorted_metric

    names = [name.strip() for name in columns.split(",") if name.strip()]
    for position, name in enumerate(names):
        metric, _ = sorted_metric(name) or ("", "")
        is_metric = metric and name not in column_names()
        if is_metric and not any(metric in record.metrics for record in records):
            if any(name in record.params for record in records):
                names[position] = f"hparams.{name}"
            else:
                _note_unknown_column(metric, records)
    return names or ["id"]


def _note_unknown_column(name: str, records: Sequence[TrialRecord]) -> None:
    """Print a note about a column that no trial has, with a similar name."""
    import difflib

    from windlass.cli.output.text import clean, print_message
    from windlass.display.trial_columns import column_names
    from windlass.model.metrics import near_metric

    metrics = dict.fromkeys(metric for record in records for metric in record.metrics)
    others = [*column_names(), *(param for record in records for param in record.params)]
    near = near_metric(name, metrics) or next(iter(difflib.get_close_matches(name, others)), None)
    guess = f" Did you mean {clean(near)!r}?" if near else ""
    print_message(
        f"No trial in this list has a metric or parameter {name!r}.{guess} Columns are metrics, "
        f"parameters, {', '.join(column_names())}."
    )


def _find_experiments(client: Client, experiment: str | None) -> list[Experiment]:
    """Return all experiments with the given name, newest first."""
    if experiment is None:
        return []
    return list(
        client.list_experiments(name=experiment, archived=None, sort_by="-id", limit=_NAMESAKES)
    )


def _has_archived(client: Client) -> bool:
    return next(client.list_experiments(archived=True, limit=1), None) is not None


def _list_experiments(
    client: Client, chosen: dict[str, Any], sort: str, limit: int | None, *, as_json: bool
) -> None:
    from windlass.cli.output.json import print_json_array
    from windlass.cli.output.table import print_table
    from windlass.cli.output.text import print_message
    from windlass.display.experiment_columns import experiment_table

    experiments = client.list_experiments(**chosen, sort_by=sort, limit=limit and limit + 1)
    if as_json:
        print_json_array(experiment.record for experiment in itertools.islice(experiments, limit))
        return
    records = [experiment.record for experiment in experiments]
    if not records:
        print_message(
            "No experiment matches." if any(chosen.values()) or _has_archived(client) else _NOTHING
        )
        return
    print_table(*experiment_table(records[:limit], time.time()))
    _mention_rest(len(records), limit, "experiment", "windlass ls --experiments --all")


def _mention_rest(
    listed: int, limit: int | None, noun: str, how: str, *, is_sorted: bool = False
) -> None:
    from windlass.cli.output.text import counted, is_terminal, paint

    if limit is not None and listed > limit and is_terminal(sys.stdout):
        which = "first" if is_sorted else "newest"
        print(paint(f"The {which} {counted(limit, noun)}. All of them: {how}", dim=True))
