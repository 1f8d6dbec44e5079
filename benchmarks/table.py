"""The report as a table for people."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.model import Figure, PeerFigure, Report, Value

_HEAD = ("FIGURE", "WHAT", "VALUE", "QUARTILES", "× BARE", "BUDGET", "")
_NUMBERS = (2, 3, 4)  # columns that are aligned to the right


def format_report(report: Report) -> str:
    """All there is to tell: where, with what, and a row a figure."""
    rows = [_HEAD, *(row for figure in report.figures for row in _rows(figure))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [_format_row(row, widths) for row in rows]
    return "\n".join([*_heading(report), "", *lines, "", *_notes(report)])


def _heading(report: Report) -> Iterator[str]:
    machine, bare = report.machine, report.bare
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(report.started))
    yield f"windlass   {report.windlass}, commit {report.commit or 'unknown'}"
    yield f"measured   {day}, in {report.took:.0f} s"
    yield (
        f"machine    {machine.cores} cores ({machine.processor}), {machine.memory_gb:g} GB, "
        f"{machine.system}; load {machine.load_before:g} before, {machine.load_after:g} after"
    )
    yield f"versions   {machine.python}, git {machine.git}"
    for name, version in report.peers.items():
        yield f"           {name} {version}"
    yield f"yardstick  {report.yardstick}"
    yield f"           {_amount(bare)}, quartiles {_quartiles(bare)}, of {bare.samples} starts"


def _rows(figure: Figure) -> Iterator[tuple[str, ...]]:
    verdict = {True: "ok", False: "MISS", None: ""}[figure.ok]
    budget = figure.budget.text if figure.budget else ""
    if figure.error:
        yield figure.name, figure.title, "none", "", "", budget, "FAILED"
    else:
        yield figure.name, figure.title, *_cells(figure.value), budget, verdict
    for peer in figure.peers:
        yield f"  {peer.name}", f"  {peer.title}", *_cells(peer.value), "", _peer_note(peer)


def _peer_note(peer: PeerFigure) -> str:
    return "" if peer.value else "see below"


def _cells(value: Value | None) -> tuple[str, str, str]:
    if value is None:
        return "none", "", ""
    return _amount(value), _quartiles(value), "" if value.ratio is None else f"{value.ratio:.2f}"


def _amount(value: Value) -> str:
    """A number as precise as it is worth.

    >>> [_amount(Value(amount=n, unit="ms", samples=1)) for n in (0.1234, 12.34, 1234.5)]
    ['0.12 ms', '12.3 ms', '1,234 ms']
    """
    return f"{_number(value.amount)} {value.unit}"


def _quartiles(value: Value) -> str:
    if value.low is None or value.high is None:
        return ""
    return f"{_number(value.low)} to {_number(value.high)}"


def _number(number: float) -> str:
    digits = 2 if abs(number) < 10 else 1 if abs(number) < 100 else 0
    return f"{number:,.{digits}f}"


def _format_row(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [
        cell.rjust(width) if column in _NUMBERS else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _notes(report: Report) -> Iterator[str]:
    for figure in report.figures:
        if figure.note:
            yield f"{figure.name}: {figure.note}"
        if figure.error:
            yield f"{figure.name} FAILED: {figure.error}"
        for peer in figure.peers:
            if peer.note:
                yield f"{figure.name}, {peer.name} ({peer.title}): {peer.note}"
    judged = [figure for figure in report.figures if figure.ok is not None]
    kept = sum(1 for figure in judged if figure.ok)
    yield f"{kept} of {len(judged)} budgets are kept."
