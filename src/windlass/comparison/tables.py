"""Builds tables of trials, with differing parameters, metrics and outcomes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from windlass.comparison.changes import flat, is_same
from windlass.model.errors import InvalidArgument, shown
from windlass.model.records import Summary, TrialRecord, own_metrics
from windlass.model.run_time import seconds_run
from windlass.model.text.display import clean, shorten, width_of
from windlass.model.text.quantities import format_duration

STATISTICS = ("last", "min", "max", "mean", "count", "step")
OUTCOME = "outcome"  # the column of the return values
_FIXED = ("id", "name", "state", "seconds")
_WIDEST = 40  # the maximum width of a printed cell


class Table(Sequence[dict[str, Any]]):
    """A table of named values, aligned when printed and rendered as HTML in notebooks.

    >>> table = Table(["id", "lr"], [{"id": 1, "lr": 0.1}, {"id": 12, "lr": None}])
    >>> print(table)
    id   lr
     1  0.1
    12    -
    >>> table[0]["lr"], len(table), table.column("id")
    (0.1, 2, [1, 12])
    """

    def __init__(self, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        self.columns = tuple(columns)
        self.rows = [{name: row.get(name) for name in self.columns} for row in rows]

    def column(self, name: str) -> list[Any]:
        """Return a column's values from top to bottom."""
        if name not in self.columns:
            raise InvalidArgument(f"There is no column {shown(name)}.", hint=_listed(self.columns))
        return [row[name] for row in self.rows]

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Table: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | Table:
        if isinstance(index, slice):
            return Table(self.columns, self.rows[index])
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return self.columns == other.columns and is_same(self.rows, other.rows)

    __hash__ = None  # type: ignore[assignment]  # its rows are mutable

    def __str__(self) -> str:
        rows = [[cell(name, row[name]) for name in self.columns] for row in self.rows]
        right = [is_numeric(self.column(name)) for name in self.columns]
        lines = [[clean(name) for name in self.columns], *rows]
        widths = [max(width_of(line[i]) for line in lines) for i in range(len(self.columns))]
        return "\n".join(
            "  ".join(map(_padded, line, widths, right)).rstrip() for line in lines
        )  # fmt: skip

    def __repr__(self) -> str:
        return str(self)  # interactive prompts show the rows, as for a data frame

    def _repr_html_(self) -> str:
        from windlass.display.html.tables import table_page
        from windlass.display.table import Column

        columns = [Column(name, is_numeric(self.column(name))) for name in self.columns]
        return table_page(
            columns, [[cell(name, row[name]) for name in self.columns] for row in self.rows]
        )


def build_table(
    records: Sequence[TrialRecord],
    *,
    metrics: Sequence[str] | str | None = None,
    sort_by: str | None = None,
) -> Table:
    """Build a table with one row per trial.

    The columns are the state, the parameters that differ, and the metrics' last values. If the
    functions returned different values that no metric shows, the last column is `outcome`.
    `metrics` selects metrics, where a name such as `loss.min` stands for the minimum instead of the
    last value. `sort_by` is a column, or a sort key such as `metrics.loss.min`, `hparams.lr` or
    `duration`. A leading `-` means descending order. Trials without a value come last.
    """
    params = [flat(record.params) for record in records]
    chosen = _chosen_metrics(records, metrics)
    names = _differing(params)
    fixed = [name for name in _FIXED if name != "name" or len({r.name for r in records}) > 1]
    outcomes = _shown_outcomes(records, chosen)
    reserved = (*_FIXED, OUTCOME) if outcomes else _FIXED
    labels = {name: f"param.{name}" if name in reserved else name for name in names}
    taken = {*reserved, *labels.values()}
    metric_labels = {name: f"metric.{name}" if name in taken else name for name in chosen}
    rows = []
    for record, values in zip(records, params, strict=True):
        row: dict[str, Any] = {name: _fixed_value(record, name) for name in fixed}
        row |= {label: values.get(name) for name, label in labels.items()}
        row |= {label: _statistic(record.metrics, n) for n, label in metric_labels.items()}
        rows.append(row | outcomes.get(record.id, {}))
    last = [OUTCOME] if outcomes else []
    table = Table([*fixed, *labels.values(), *metric_labels.values(), *last], rows)
    return table if sort_by is None else _sorted(table, records, params, str(sort_by))


def _sorted(
    table: Table, records: Sequence[TrialRecord], params: Sequence[Mapping[str, Any]], by: str
) -> Table:
    """Sort a table's rows by a column, or by a value of the trials that is not a column."""
    name = by.removeprefix("-")
    is_column = by in table.columns or name in table.columns
    hidden_values = None if is_column else _hidden(records, params, name)
    if hidden_values is None:
        return sorted_by(table, by)
    rows = [{**row, name: value} for row, value in zip(table.rows, hidden_values, strict=True)]
    return Table(table.columns, sorted_by(Table([*table.columns, name], rows), by).rows)


def _hidden(
    records: Sequence[TrialRecord], params: Sequence[Mapping[str, Any]], name: str
) -> list[Any] | None:
    """Return each trial's value of a sort key that is not a column of the table.

    Return None if no trial has such a value.
    """
    if name == "duration":
        return [_fixed_value(record, "seconds") for record in records]
    kind, dot, rest = name.partition(".")
    if dot and kind in ("hparams", "params"):
        exists = any(rest in values for values in params)
        return [values.get(rest) for values in params] if exists else None
    metric = rest if dot and kind == "metrics" else name
    if not any(metric in r.metrics or _base(metric) in r.metrics for r in records):
        return None
    return [_statistic(record.metrics, metric) for record in records]


def _base(name: str) -> str:
    """Return the metric in a name such as `loss.min`, or "" if the name has no statistic."""
    metric, _, statistic = name.rpartition(".")
    return metric if statistic in STATISTICS else ""


def sorted_by(table: Table, column: str) -> Table:
    """Sort a table's rows by a column.

    Rows without a value come last. Rows with equal values keep their order.

    >>> table = Table(["id", "loss"], [{"id": 1, "loss": None}, {"id": 2, "loss": 3.0}])
    >>> sorted_by(table, "-loss").column("id")
    [2, 1]
    """
    name = column
    is_down = column not in table.columns and column.startswith("-")
    if is_down:
        name = column[1:]
    if name not in table.columns:
        raise InvalidArgument(
            f"The trials cannot be sorted by {shown(name)}: there is no such column.",
            hint=_near(name, table.columns) + _listed(table.columns),
        )
    present = [row for row in table.rows if _has_value(row[name])]
    absent = [row for row in table.rows if not _has_value(row[name])]
    present.sort(key=lambda row: _order(row[name]), reverse=is_down)
    return Table(table.columns, [*present, *absent])


def cell(name: str, value: Any) -> str:
    """Format one table value.

    >>> cell("loss", 0.12345678), cell("seconds", 75.0), cell("lr", None)
    ('0.123457', '1m 15s', '-')
    """
    if value is None:
        return "-"
    if name == "seconds" and isinstance(value, float):
        return format_duration(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return shorten(clean(value if isinstance(value, str) and value else repr(value)), _WIDEST)


def is_numeric(values: Sequence[Any]) -> bool:
    """Return True if a column contains only numbers, which makes it right-aligned."""
    present = [value for value in values if value is not None]
    numbers = [v for v in present if isinstance(v, (int, float)) and not isinstance(v, bool)]
    return bool(present) and len(numbers) == len(present)


def _differing(params: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the parameters that differ between trials. For a single trial, return all of them."""
    names = list(dict.fromkeys(name for values in params for name in values))
    if len(params) == 1:
        return names
    first = params[0] if params else {}
    return [
        name
        for name in names
        if not all(name in values and name in first and is_same(values[name], first[name])
                   for values in params)
    ]  # fmt: skip


def _chosen_metrics(
    records: Sequence[TrialRecord], metrics: Sequence[str] | str | None
) -> list[str]:
    reported = sorted({name for record in records for name in record.metrics})
    if metrics is None:
        return sorted({name for record in records for name in own_metrics(record.metrics)})
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    for name in names:
        metric, _, statistic = str(name).rpartition(".")
        if name not in reported and not (metric in reported and statistic in STATISTICS):
            what = _listed(reported, "The metrics are") if reported else "None has been reported."
            raise InvalidArgument(
                f"No trial here has reported a metric {shown(name)}.",
                hint=_near(str(name), reported) + what,
            )
    return names


def _statistic(metrics: Mapping[str, Summary], name: str) -> float | None:
    if name in metrics:
        return metrics[name].last
    metric, _, statistic = name.rpartition(".")
    summary = metrics.get(metric)
    value: float | None = getattr(summary, statistic) if summary is not None else None
    return value


def _fixed_value(record: TrialRecord, name: str) -> Any:
    if name == "seconds":
        return seconds_run(record)
    return record.state.value if name == "state" else getattr(record, name)


def _shown_outcomes(
    records: Sequence[TrialRecord], metrics: Sequence[str]
) -> dict[int, dict[str, Any]]:
    """Return the outcome cell of each trial, or {} if the table needs no column for outcomes.

    Functions often return the last value of a metric. Such values are not repeated.
    """
    values = [_return_value(record) for record in records]
    is_alike = len(values) > 1 and all(is_same(value, values[0]) for value in values)
    if is_alike or all(value is None for value in values):
        return {}
    for name in metrics:
        if _are_rounded([_statistic(record.metrics, name) for record in records], values):
            return {}
    return {record.id: {OUTCOME: v} for record, v in zip(records, values, strict=True)}


def _return_value(record: TrialRecord) -> Any:
    """Return a function's return value as a number or as text, or None if there is none."""
    text = record.result.text if record.result is not None else ""
    if text in ("", "None"):
        return None
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _are_rounded(metric: Sequence[float | None], values: Sequence[Any]) -> bool:
    """Return whether return values are a metric's values, perhaps rounded.

    >>> _are_rounded([0.34868, 1.6e-07], [0.349, 0.0]), _are_rounded([0.34868], [0.35868])
    (True, False)
    """
    digits = max(len(str(value).partition(".")[2]) for value in values)
    return all(
        value is None
        or number == value
        or is_same(number, value)
        or (number is not None and isinstance(value, float) and round(number, digits) == value)
        for number, value in zip(metric, values, strict=True)
    )


def _has_value(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _order(value: Any) -> tuple[int, Any]:
    """Return a key that sorts numbers before texts, and texts before all other values."""
    if isinstance(value, (int, float)):
        return 0, value
    return (1, value) if isinstance(value, str) else (2, repr(value))


def _padded(text: str, width: int, is_right: bool) -> str:
    space = " " * (width - width_of(text))
    return space + text if is_right else text + space


def _near(name: str, names: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"Did you mean {near[0]!r}? " if near else ""


def _listed(names: Sequence[str], what: str = "The columns are") -> str:
    return f"{what}: {', '.join(names)}."
