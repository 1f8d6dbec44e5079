"""Implements `windlass metrics`, which shows metrics as a table, as points or as curves."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.last_trial import steps_back
from windlass.cli.options.parameters import (
    TRIAL_ID,
    WholeNumber,
    complete_trials_and_metrics,
    experiment_option,
    json_option,
    name_or_id,
)

if TYPE_CHECKING:
    from windlass.client.client import Client
    from windlass.client.resources.trial.curves import Curve
    from windlass.client.resources.trial.metrics import Metrics, Point
    from windlass.model.records import TrialRecord

_HEIGHT = 16  # lines; the height of a plot if the terminal is tall enough
_MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "red")


@click.command(
    short_help="Print or plot the metrics of trials.",
    epilog=examples(
        "windlass metrics 7",
        "windlass metrics 7 loss --follow",
        "windlass metrics 7 8 loss --plot --log",
        "windlass metrics -e rates -g validation loss",
    ),
)
@click.argument(
    "words",
    nargs=-1,
    metavar="[ID]... [NAME]...",
    shell_complete=complete_trials_and_metrics,
)
@experiment_option("All trials of an experiment (name or id).")
@click.option("-g", "--group", metavar="NAME", help="Metrics of a group: -g validation loss.")
@click.option("--system", is_flag=True, help="The usage of CPUs, memory, disks and GPUs.")
@click.option("--plot", is_flag=True, help="Plot the curves in the terminal.")
@click.option("--log", is_flag=True, help="Plot on a logarithmic value axis.")
@click.option("-f", "--follow", is_flag=True, help="Print new points until the trial ends.")
@click.option("--role", metavar="NAME", help="Replicas of a role.")
@click.option("--index", type=int, metavar="N", help="Replica N of each role.")
@click.option("--attempt", type=int, metavar="N", help="Attempt N.")
@click.option(
    "-n", "--max-points", type=WholeNumber(1), metavar="N",
    help="Downsample to N points. Spikes are kept.",
)  # fmt: skip
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    words: tuple[str, ...],
    experiment: str | None,
    system: bool,
    plot: bool,
    log: bool,
    follow: bool,
    max_points: int | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Print a table of all metrics, or some metrics as points or curves.

    On the command line, trial ids come before metric names.
    """
    from windlass.client.client import default_client
    from windlass.client.resources.trial.metrics import fetch_metrics, full_name

    named, names = ([], _once(words)) if experiment is not None else _split_words(words, ctx)
    if plot and (follow or as_json):
        raise click.UsageError("--plot cannot be used with --follow or --json.", ctx)
    if log and not plot:
        raise click.UsageError("--log needs --plot.", ctx)
    if system and (names or plot or follow):
        raise click.UsageError(
            "--system prints a table. For points or curves, name a metric: system/cpu_percent.", ctx
        )
    if follow and max_points is not None:
        raise click.UsageError("--follow prints every point. Remove --max-points.", ctx)
    client = default_client()
    if experiment is None:
        records = [client.get_trial(trial_id).record for trial_id in named]
    else:
        records = _list_trials(client, experiment, ctx)
    ids = [record.id for record in records]
    if follow and len(ids) > 1:
        raise click.UsageError("--follow works for one trial.", ctx)
    if plot and len(ids) * len(names) > len(_MARKS):
        raise click.UsageError(f"{len(_MARKS)} curves are the most that --plot can draw.", ctx)
    if not names and (plot or follow):
        raise click.UsageError(_suggest_metrics(records, "--plot" if plot else "-f"), ctx)
    if not names:
        _print_all(records, system=system, as_json=as_json)
        return
    if plot:
        import shutil

        max_points = 4 * shutil.get_terminal_size().columns
    points = fetch_metrics(
        client.transport, ids, names, max_points=max_points, follow=follow, **chosen
    )
    try:
        if plot:
            _plot(records, names, chosen["group"], list(points), log=log)
        else:
            full = [full_name(chosen["group"], name) for name in names]
            _print_points(points, full, len(ids), as_json=as_json)
    except KeyError as error:
        raise click.ClickException(str(error)) from None


def _split_words(words: Sequence[str], ctx: click.Context) -> tuple[list[int], list[str]]:
    """Split the arguments into trial ids and metric names, without duplicates."""
    words = list(words)
    if not words:
        raise click.UsageError("Name a trial by its id, or an experiment with -e.", ctx)
    ids = [TRIAL_ID.convert(words.pop(0), None, ctx)]
    while words and (words[0].isdecimal() or steps_back(words[0]) is not None):
        ids.append(TRIAL_ID.convert(words.pop(0), None, ctx))
    return list(dict.fromkeys(ids)), _once(words)


def _once(words: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _list_trials(client: Client, experiment: str, ctx: click.Context) -> list[TrialRecord]:
    """Return all trials of an experiment, oldest first."""
    whose = client.get_experiment(name_or_id(experiment))
    records = [trial.record for trial in whose.list_trials()]
    if not records:
        raise click.UsageError(f"The experiment {experiment!r} has no trials yet.", ctx)
    return records


def _suggest_metrics(records: Sequence[TrialRecord], how: str) -> str:
    """Build a usage message that lists the reported metrics."""
    from windlass.cli.output.text import clean
    from windlass.model.records import is_own_metric

    reported = list(dict.fromkeys(name for record in records for name in record.metrics))
    names = [clean(name) for name in reported if is_own_metric(name)] or list(map(clean, reported))
    ids = " ".join(str(record.id) for record in records)
    if not names:
        return f"Name a metric. These trials have not reported any yet. See: windlass metrics {ids}"
    more = ", …" if len(names) > 20 else ""
    there = f"The metrics are: {', '.join(names[:20])}{more}."
    return f"Name a metric. {there} For example: windlass metrics {ids} {names[0]} {how}"


def _print_all(records: Sequence[TrialRecord], *, system: bool, as_json: bool) -> None:
    """Print the metrics that the programs reported or, if `system`, the machines' metrics."""
    import msgspec

    from windlass.cli.output.text import print_message
    from windlass.model.records import own_metrics, system_metrics

    choose = system_metrics if system else own_metrics
    chosen = [msgspec.structs.replace(record, metrics=choose(record.metrics)) for record in records]
    if as_json:
        summaries: Any = {str(record.id): record.metrics for record in chosen}
        if len(chosen) == 1:
            summaries = chosen[0].metrics
        print(msgspec.json.encode(summaries).decode())
        return
    print_metrics(*chosen, is_alone=True)
    for record in chosen:
        if not record.metrics:
            so_far = "" if record.state.is_final else " so far"
            which = "system metrics" if system else "metrics"
            print_message(f"Trial {record.id} ({record.name}) has reported no {which}{so_far}.")
    if not system and any(map(system_metrics, (record.metrics for record in records))):
        ids = " ".join(str(record.id) for record in records)
        print_message(f"System metrics (CPU, memory, disk, GPU): windlass metrics {ids} --system")


def _print_points(metrics: Metrics, names: Sequence[str], trials: int, *, as_json: bool) -> None:
    """Print one line per reported point, including its replica.

    With several metrics, each line also includes the metric's name. Points of system metrics have
    times as steps.

    Each page of points is written at once, because there may be many.
    """
    from windlass.cli.output.text import clean
    from windlass.model.records import is_own_metric

    is_seen = (
        sys.stdout.isatty()
    )  # without a terminal, print no heading and separate cells with tabs
    is_timed = not any(map(is_own_metric, names))
    heads = ["TIME" if is_timed else "STEP", "VALUE", "REPLICA"]
    heads += ["METRIC"] if len(names) > 1 else []
    heads += ["TRIAL"] if trials > 1 else []
    for curve in metrics.curves():
        if as_json:
            sys.stdout.write(_json_lines(curve))
            sys.stdout.flush()
            continue
        head = curve.head
        whose = [f"{head.role}-{head.index}.{head.attempt}"]
        whose += [clean(head.name)] if len(names) > 1 else []
        whose += [str(head.trial_id)] if trials > 1 else []
        lines = [_line(heads)] if is_seen and heads else []
        heads = []  # print the heads only once
        steps = [_format_step(head.name, step) for step in curve.steps]
        points = zip(steps, map(format_value, curve.values), strict=True)
        if is_seen:
            lines += [_line([step, value, *whose]) for step, value in points]
        else:
            rest = "\t".join(whose)
            lines += [f"{step}\t{value}\t{rest}" for step, value in points]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()


def _json_lines(curve: Curve) -> str:
    """Format a curve's points as one JSON object per line.

    NaN and infinite values become strings.
    """
    import msgspec

    fields = msgspec.structs.asdict(curve.head)
    rest = {name: fields[name] for name in ("role", "index", "attempt", "name", "trial_id")}
    numbers = zip(curve.steps, curve.times, curve.values, strict=True)
    points = [
        {"step": step, "time": time, "value": value if value - value == 0 else repr(value), **rest}
        for step, time, value in numbers
    ]
    return msgspec.json.Encoder().encode_lines(points).decode()


def _line(cells: Sequence[str]) -> str:
    step, value, *rest = cells
    return "  ".join([step.rjust(8), value.rjust(12), *(cell.ljust(12) for cell in rest)]).rstrip()


class _Series(NamedTuple):
    """The curves of one metric in one trial, one curve per replica."""

    record: TrialRecord
    name: str
    curves: list[list[tuple[float, float]]]


def _plot(
    records: Sequence[TrialRecord],
    names: Sequence[str],
    group: str | None,
    points: list[Point],
    *,
    log: bool,
) -> None:
    import shutil

    from windlass.cli.output.plot import describe_left_out, draw
    from windlass.cli.output.text import can_print, paint
    from windlass.client.resources.trial.metrics import full_name

    every = []
    for name in names:
        for record in records:
            full = full_name(group, name)
            own = [point for point in points if (point.trial_id, point.name) == (record.id, full)]
            every.append(_Series(record, full, _latest_attempts(own)))
    several = len(every) > 1
    _print_legend(every)
    whose = [number for number, series in enumerate(every) for _ in series.curves]
    size = shutil.get_terminal_size()
    lines = draw(
        [curve for series in every for curve in series.curves],
        size.columns,
        max(min(_HEIGHT, size.lines - 3 - len(every)), 4),
        plain=not can_print("⣿┤"),
        log=log,
        marks="".join(_MARKS[number] for number in whose) if several else "",
        paint=lambda text, curve: paint(text, _colour(whose[curve])) if several else text,
        format_step=lambda step: _format_step(full_name(group, names[0]), step),
    )
    if not lines:
        print(f"No {'positive' if log else 'finite'} points were reported.")
    for line in lines:
        print(line)
    for line in describe_left_out([point.value for point in points], log=log):
        print(line)


def _print_legend(every: Sequence[_Series]) -> None:
    """Print a plot's legend, with one line per metric and trial."""
    from windlass.cli.output.text import clean, paint

    rows = []
    for record, name, curves in every:
        summary = record.metrics.get(name) if curves else None
        facts = [f"trial {record.id} ({clean(record.name)})"]
        if summary is None:
            facts.append("nothing reported")
        else:
            values = (("last", summary.last), ("min", summary.min), ("max", summary.max))
            facts += [
                f"{what} {format_value(value)}" for what, value in values if value is not None
            ]
        rows.append([clean(name), *facts])
    widths = [
        max((len(row[at]) for row in rows if at < len(row)), default=0)
        for at in range(max(map(len, rows)))
    ]
    for number, (name, *facts) in enumerate(rows):
        mark = ""
        if len(rows) > 1:
            mark = paint(f"{_MARKS[number]}  ", _colour(number), bold=True)
        line = "  ".join(fact.ljust(widths[at]) for at, fact in enumerate(facts, 1)).rstrip()
        print(f"{mark}{paint(name.ljust(widths[0]), bold=True)}  {paint(line, dim=True)}")


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _latest_attempts(points: list[Point]) -> list[list[tuple[float, float]]]:
    """Build one curve per replica.

    From the first step of a later attempt on, the curve contains only the points of that attempt,
    not those of earlier attempts.
    """
    curves: dict[tuple[str, int], list[tuple[float, float]]] = {}
    firsts: dict[tuple[str, int], tuple[int, int]] = {}
    for point in points:
        who = (point.role, point.index)
        curve = curves.setdefault(who, [])
        attempt, first = firsts.get(who, (point.attempt, point.step))
        if point.attempt != attempt or point.step < first:
            first = point.step
            if point.attempt != attempt:
                curve[:] = [earlier for earlier in curve if earlier[0] < point.step]
        firsts[who] = (point.attempt, first)
        curve.append((point.step, point.value))
    return [
        sorted(curve, key=lambda step_and_value: step_and_value[0]) for curve in curves.values()
    ]


def print_metrics(*records: TrialRecord, is_alone: bool = False) -> None:
    """Print a summary of each metric."""
    from windlass.cli.output.table import Column, print_table
    from windlass.cli.output.text import clean, paint

    if not any(record.metrics for record in records):
        return
    several = len(records) > 1
    indent = "" if is_alone else "  "
    if not is_alone:
        print()
        print(paint("Metrics", bold=True))
    heads = ("LAST", "MIN", "MAX", *(["MEAN"] if is_alone else []), "STEP", "COUNT")
    columns = [Column("TRIAL", is_number=True)] if several else []
    columns += [Column(f"{indent}METRIC"), *(Column(head, is_number=True) for head in heads)]
    rows = [
        [
            *([str(record.id)] if several else []),
            f"{indent}{clean(name)}",
            format_value(summary.last),
            format_value(summary.min),
            format_value(summary.max),
            *([format_value(summary.mean)] if is_alone else []),
            "" if summary.step is None else _format_step(name, summary.step),
            str(summary.count),
        ]
        for record in records
        for name, summary in record.metrics.items()
    ]
    print_table(columns, rows)


def _format_step(name: str, step: float) -> str:
    """Format a step. A step of a system metric is a time and is formatted as such."""
    from windlass.cli.output.text import format_moment
    from windlass.model.records import is_own_metric

    return str(step) if is_own_metric(name) else format_moment(step)


def format_value(value: float | None) -> str:
    """Format a number. Integers keep all digits, and other numbers get six significant digits.

    >>> format_value(0.1 + 0.2), format_value(123456789.0), format_value(1e-9), format_value(None)
    ('0.3', '123456789', '1e-09', '')
    """
    if value is None:
        return ""
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.6g}"
