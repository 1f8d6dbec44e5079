"""`windlass ls`: the trials there are, and the experiments."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from windlass.cli.keeping import archived_option, complete_names
from windlass.cli.parameters import STATE, WholeNumber, complete_experiments, json_option

if TYPE_CHECKING:
    from windlass.cli.tables import Cell, Column, Row
    from windlass.client.experiments import Experiment
    from windlass.client.session import Client
    from windlass.model.records import ExperimentRecord, TrialRecord

_NOTHING = """Nothing has run here yet. Run a script:
  windlass run train.py --lr 0.1
or decorate a function with @wl.run and call it."""

_NAMESAKES = 20
_PLAIN = ("id", "name", "state", "user", "created", "started", "ended", "duration")  # sorts


@click.command(short_help="List trials, newest first.")
@click.option(
    "-e", "--experiment", metavar="NAME", shell_complete=complete_experiments,
    help="Only those of an experiment, by name or id.",
)  # fmt: skip
@click.option(
    "-s", "--state", "states", multiple=True, type=STATE, help="Only those in a state; repeatable."
)
@click.option(
    "-l",
    "--label",
    "labels",
    multiple=True,
    metavar="TEXT",
    help="Only those with a label; repeatable.",
)
@click.option(
    "-w",
    "--where",
    metavar="TEXT",
    help='Only those that fulfil it: "hparams.lr < 0.1 and metrics.loss.min < 0.3".',
)
@click.option(
    "--sort",
    metavar="NAME",
    help="By created, duration, hparams.lr, metrics.loss or loss, loss.min, …; -NAME: downwards.",
)
@click.option("-u", "--user", metavar="NAME", help="Only those that a user submitted.")
@click.option(
    "-k", "--kind", "kinds", multiple=True, metavar="KIND", help="job, external, command, shell."
)
@click.option("--since", metavar="TIME", help="Only those submitted since: 2h, 2026-11-16.")
@click.option(
    "-n",
    "--limit",
    type=WholeNumber(min=1),
    default=20,
    metavar="N",
    help="At most so many (20).",
)
@click.option("-a", "--all", "everything", is_flag=True, help="All there are.")
@click.option(
    "-p", "--project", metavar="NAME", shell_complete=complete_names("projects"),
    help="Only those of a project: vision, lab/vision.",
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
    """List trials, newest first: how they stand, with what parameters, and what came out."""
    from windlass.client.session import default_client

    if experiments and (experiment or where or kinds or since):
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
        asked = Asked(
            experiment, list(states), labels, where, user, list(kinds), since, project, archived,
            sort,
        )  # fmt: skip
        _list_trials(default_client(), asked, wanted, as_json=as_json)


class Asked(NamedTuple):
    """Which trials are wanted."""

    experiment: str | None
    states: list[str]
    labels: tuple[str, ...]
    where: str | None
    user: str | None
    kinds: list[str]
    since: str | None
    project: str | None
    archived: bool
    sort: str | None  # it keeps none out


def _list_trials(client: Client, asked: Asked, limit: int | None, *, as_json: bool) -> None:
    from windlass.cli.machine import print_json_array
    from windlass.cli.tables import Column, print_table
    from windlass.cli.text import is_terminal, paint, say, saying_doubts
    from windlass.client.listing import list_trials

    experiment = asked.experiment
    # One more than is shown tells whether there are more.
    found = list_trials(
        client.transport,
        experiment=experiment,
        state=asked.states or None,
        labels=asked.labels,
        where=asked.where,
        user=asked.user,
        kind=asked.kinds,
        created_after=asked.since,
        project=asked.project,
        # Those of an experiment that is named are asked for, whatever became of it.
        archived=True if asked.archived else None if experiment is not None else False,
        sort_by=asked.sort or "-id",
        limit=limit and limit + 1,
    )
    with saying_doubts():
        first = next(found, None)
    if as_json:
        rest = itertools.chain(() if first is None else (first,), found)
        print_json_array(trial.record for trial in itertools.islice(rest, limit))
        return
    if first is None:
        is_filtered = any(asked[:-1]) or _has_archived(client)
        say("No trial matches. All there are: windlass ls --all" if is_filtered else _NOTHING)
        return
    records = [first.record, *(trial.record for trial in found)]
    now = time.time()
    columns = [
        Column("ID", is_number=True),
        Column("NAME", shrinks=True),
        Column("STATE"),
        Column("PARAMETERS", shrinks=True),
        Column("TOOK", is_number=True),
        Column("CREATED", is_number=True),
        Column("OUTCOME", shrinks=True),
    ]
    shown = records[:limit]
    rows: list[Row] = [_trial_row(record, now) for record in shown]
    if (metric := sorted_metric(asked.sort or "")) is not None:
        from windlass.cli.text import clean

        columns.insert(-1, Column(clean(" ".join(metric)).strip().upper(), is_number=True))
        told = [_told_metric(record, *metric) for record in shown]
        rows = [[*row[:-1], each, row[-1]] for row, each in zip(rows, told, strict=True)]
    print_table(*_with_labels(columns, rows, shown))
    _mention_rest(len(records), limit, "trial", "windlass ls --all", is_sorted=bool(asked.sort))
    named = _experiments_of(client, experiment) if is_terminal(sys.stdout) else []
    if len(named) > 1:
        several = ", ".join(str(each.id) for each in reversed(named))
        text = f"Several experiments are called so: {several}. One: windlass ls -e {named[0].id}"
        print(paint(text, dim=True))


def _experiments_of(client: Client, experiment: str | None) -> list[Experiment]:
    """Those of a name, the newest first."""
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
    from windlass.cli.machine import print_json_array
    from windlass.cli.tables import Column, print_table
    from windlass.cli.text import say

    found = client.list_experiments(**chosen, sort_by=sort, limit=limit and limit + 1)
    if as_json:
        print_json_array(experiment.record for experiment in itertools.islice(found, limit))
        return
    records = [experiment.record for experiment in found]
    if not records:
        say("No experiment matches." if any(chosen.values()) or _has_archived(client) else _NOTHING)
        return
    now = time.time()
    columns = [
        Column("ID", is_number=True),
        Column("EXPERIMENT", shrinks=True),
        Column("TRIALS", is_number=True),
        Column("STATES", shrinks=True),
        Column("CREATED", is_number=True),
    ]
    shown = records[:limit]
    print_table(*_with_labels(columns, [_experiment_row(record, now) for record in shown], shown))
    _mention_rest(len(records), limit, "experiment", "windlass ls --experiments --all")


def _with_labels(
    columns: list[Column],
    rows: Sequence[Row],
    records: Sequence[TrialRecord] | Sequence[ExperimentRecord],
) -> tuple[list[Column], Sequence[Row]]:
    """The same table with the labels, if there are any."""
    from windlass.cli.tables import Column
    from windlass.cli.text import clean

    if not any(record.labels for record in records):
        return columns, rows
    listed = [clean(", ".join(record.labels)) for record in records]
    wider = [[*row, labels] for row, labels in zip(rows, listed, strict=True)]
    return [*columns, Column("LABELS", shrinks=True)], wider


def _trial_row(record: TrialRecord, now: float) -> Row:
    from windlass.cli.tables import Cell
    from windlass.cli.text import clean, format_ago, state_colour

    return [
        str(record.id),
        clean(full_name(record)),
        Cell(_state(record), state_colour(record.state)),
        short_params(record.params),
        how_long(record, now),
        Cell(format_ago(record.created, now), "dim"),
        outcome_of(record),
    ]


def _experiment_row(record: ExperimentRecord, now: float) -> Row:
    from windlass.cli.tables import Cell
    from windlass.cli.text import clean, format_ago

    states = ", ".join(f"{count} {state.lower()}" for state, count in record.states.items())
    name = record.name if record.project == "default" else f"{record.project}/{record.name}"
    created = Cell(format_ago(record.created, now), "dim")
    return [str(record.id), clean(name), str(record.trials), states, created]


def _state(record: TrialRecord) -> str:
    """Its state; while it goes on, how far it is, and of several replicas how many are up."""
    from windlass.client.replicas import replicas_of

    replicas = replicas_of(record)
    if record.state.is_final:
        return record.state.value
    told = [record.state.value]
    if len(replicas) > 1:
        up = sum(each.phase in ("Running", "Succeeded") for each in replicas)
        told.append(f"{up}/{len(replicas)}")
    if record.progress is not None:
        told.append(f"{record.progress:.0%}")
    return " ".join(told)


def sorted_metric(sort: str) -> tuple[str, str] | None:
    """The metric that trials are sorted by, and what of it; its last value if nothing is said.

    >>> sorted_metric("-metrics.val/loss.min"), sorted_metric('metrics."a.b"')
    (('val/loss', 'min'), ('a.b', ''))
    >>> sorted_metric("loss"), sorted_metric("hparams.lr"), sorted_metric("-created")
    (('loss', ''), None, None)
    """
    text = sort.removeprefix("-")
    head, _, rest = text.partition(".")
    if not text or text in _PLAIN or head in ("hparams", "params"):
        return None
    rest = rest if head == "metrics" else text
    name, _, aspect = rest.rpartition(".")
    if not name or aspect not in ("last", "min", "max", "mean", "count"):
        name, aspect = rest, ""
    if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1].replace(name[0] * 2, name[0])
    return name, "" if aspect == "last" else aspect


def _told_metric(record: TrialRecord, name: str, aspect: str) -> str:
    summary = record.metrics.get(name)
    value = None if summary is None else getattr(summary, aspect or "last")
    return "-" if value is None else f"{float(value):.6g}"


def full_name(record: TrialRecord) -> str:
    """A trial's name, with its experiment's where that is another."""
    if record.name == record.experiment or not record.experiment:
        return record.name
    return f"{record.experiment}/{record.name}"


def short_params(params: Mapping[str, Any]) -> str:
    """Parameters on one line.

    >>> short_params({"lr": 0.1, "shuffle": True, "data": "a b"})
    "lr=0.1 shuffle=True data='a b'"
    """
    from windlass.cli.text import clean

    return clean(" ".join(f"{name}={_short_value(value)}" for name, value in params.items()))


def how_long(record: TrialRecord, now: float) -> str:
    """How long it ran, or runs."""
    from windlass.model.lasting import seconds_run
    from windlass.model.quantities import format_duration

    seconds = seconds_run(record, now)
    return "-" if seconds is None else format_duration(seconds)


def outcome_of(record: TrialRecord) -> str | Cell:
    """What came of a trial, in a few words."""
    from windlass.cli.tables import Cell
    from windlass.cli.text import clean
    from windlass.model.records import TrialState

    value = record.result.text if record.result is not None else None
    if value is not None and not (value == "None" and record.asked_to_stop):
        return clean(value)
    if record.error is not None:
        return Cell(clean(f"{record.error.type}: {record.error.message}"), "red")
    told = "" if record.state is TrialState.SUCCEEDED else record.message
    if not told and record.asked_to_stop:
        told = f"asked to stop: {record.asked_to_stop}"
    return Cell(clean(told), "dim")


def _short_value(value: object) -> str:
    is_plain = isinstance(value, str) and value and not set(value) & set(" \t\n='\"")
    return str(value) if is_plain else repr(value)


def _mention_rest(
    found: int, limit: int | None, noun: str, how: str, *, is_sorted: bool = False
) -> None:
    from windlass.cli.text import counted, is_terminal, paint

    if limit is not None and found > limit and is_terminal(sys.stdout):
        which = "first" if is_sorted else "newest"
        print(paint(f"The {which} {counted(limit, noun)}. All of them: {how}", dim=True))
