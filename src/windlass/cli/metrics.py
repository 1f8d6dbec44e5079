"""`windlass metrics`: what a trial reported, as a table, as points, as a curve in the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.parameters import TRIAL_ID, complete_metrics, json_option

if TYPE_CHECKING:
    from windlass.client.metrics import Metrics, Point
    from windlass.client.trials import Trial
    from windlass.model.records import TrialRecord

_HEIGHT = 16  # lines of a curve, where the terminal has them


@click.command(short_help="Print or draw what a trial reported.")
@click.argument("trial_id", type=TRIAL_ID, metavar="ID")
@click.argument("name", required=False, shell_complete=complete_metrics)
@click.option("-g", "--group", help="Of this group: `-g validation loss` is `validation/loss`.")
@click.option("--plot", is_flag=True, help="Draw the curve.")
@click.option("-f", "--follow", is_flag=True, help="Print points as they come, until it ends.")
@click.option("--role", help="Only of the replicas of a role.")
@click.option("--index", type=int, help="Only of the replica with this index.")
@click.option("--attempt", type=int, help="Only of this attempt.")
@click.option(
    "-n", "--max-points", type=click.IntRange(1), help="At most so many, spikes among them."
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    trial_id: int,
    name: str | None,
    plot: bool,
    follow: bool,
    max_points: int | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Print what a trial reported: of all metrics a table, of one its points, or its curve."""
    from windlass.client.session import default_client

    if name is None and (plot or follow):
        raise click.UsageError("Which metric? As in: windlass metrics 7 loss --plot", ctx)
    if plot and (follow or as_json):
        raise click.UsageError("--plot goes without --follow and --json.", ctx)
    if follow and max_points is not None:
        raise click.UsageError("--follow prints every point: leave out --max-points.", ctx)
    trial = default_client().get_trial(trial_id)
    if name is None:
        _print_all(trial, as_json=as_json)
    elif plot:
        _plot(trial, name, chosen)
    else:
        _print_points(
            trial.metrics(name, follow=follow, max_points=max_points, **chosen), as_json=as_json
        )


def _print_all(trial: Trial[Any], *, as_json: bool) -> None:
    import msgspec

    if as_json:
        print(msgspec.json.encode(trial.record.metrics).decode())
    elif trial.record.metrics:
        print_metrics(trial.record, is_alone=True)
    else:
        so_far = "" if trial.record.state.is_final else " so far"
        print(f"Trial {trial.id} ({trial.name}) has reported no metrics{so_far}.", file=sys.stderr)


def _print_points(metrics: Metrics, *, as_json: bool) -> None:
    """A line a point, as it comes: with it who reported it, as soon as that may be several."""
    import msgspec

    try:
        for point in metrics:
            if as_json:
                value = point.value if point.value - point.value == 0 else repr(point.value)
                told = {**msgspec.structs.asdict(point), "value": value}
                print(msgspec.json.encode(told).decode())
            else:
                who = f"{point.role}-{point.index}.{point.attempt}"
                print(f"{point.step}\t{format_value(point.value)}\t{who}")
            sys.stdout.flush()
    except KeyError as error:
        raise click.ClickException(str(error)) from None


def _plot(trial: Trial[Any], name: str, chosen: dict[str, Any]) -> None:
    import shutil

    from windlass.cli.plot import draw
    from windlass.cli.text import can_print, clean, paint
    from windlass.client.metrics import full_name

    size = shutil.get_terminal_size()
    try:
        points = list(trial.metrics(name, max_points=4 * size.columns, **chosen))
    except KeyError as error:
        raise click.ClickException(str(error)) from None
    curves = _told_last(points)
    plain = not can_print("⣿┤")
    lines = draw(curves, size.columns, max(min(_HEIGHT, size.lines - 4), 4), plain=plain)
    full = full_name(chosen.get("group"), name)
    summary = trial.record.metrics.get(full)
    facts = [f"trial {trial.id} ({clean(trial.name)})"]
    if summary is not None:
        facts += [
            f"{what} {format_value(value)}"
            for what, value in (("last", summary.last), ("min", summary.min), ("max", summary.max))
        ]
    print(f"{paint(clean(full), bold=True)}  {paint('  '.join(facts), dim=True)}")
    if not lines:
        print("No point that could be drawn has been reported.")
    for line in lines:
        print(line)
    odd = sum(point.value - point.value != 0 for point in points)
    if odd:
        print(f"NaN or infinite, and not drawn: {odd} of the points")


def _told_last(points: list[Point]) -> list[list[tuple[float, float]]]:
    """A curve a replica: from its first step on, a later attempt has the say."""
    curves: dict[tuple[str, int], list[tuple[float, float]]] = {}
    firsts: dict[tuple[str, int], tuple[int, int]] = {}
    for point in points:
        who = (point.role, point.index)
        curve = curves.setdefault(who, [])
        attempt, first = firsts.get(who, (point.attempt, point.step))
        if point.attempt != attempt or point.step < first:
            first = point.step
            if point.attempt != attempt:
                curve[:] = [each for each in curve if each[0] < point.step]
        firsts[who] = (point.attempt, first)
        curve.append((point.step, point.value))
    return [sorted(curve, key=lambda each: each[0]) for curve in curves.values()]


def print_metrics(record: TrialRecord, *, is_alone: bool = False) -> None:
    """Print the summary of each metric that a trial reported; nothing if it reported none."""
    from windlass.cli.tables import Column, print_table
    from windlass.cli.text import clean, paint

    if not record.metrics:
        return
    indent = "" if is_alone else "  "
    if not is_alone:
        print()
        print(paint("Metrics", bold=True))
    heads = ("LAST", "MIN", "MAX", *(["MEAN"] if is_alone else []), "STEP", "COUNT")
    columns = [Column(f"{indent}NAME"), *(Column(head, is_number=True) for head in heads)]
    rows = [
        [
            f"{indent}{clean(name)}",
            format_value(each.last),
            format_value(each.min),
            format_value(each.max),
            *([format_value(each.mean)] if is_alone else []),
            "" if each.step is None else str(each.step),
            str(each.count),
        ]
        for name, each in record.metrics.items()
    ]
    print_table(columns, rows)


def format_value(value: float | None) -> str:
    """A value as short as it can be read: whole numbers whole, others to six digits.

    >>> format_value(0.1 + 0.2), format_value(123456789.0), format_value(1e-9), format_value(None)
    ('0.3', '123456789', '1e-09', '')
    """
    if value is None:
        return ""
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.6g}"
