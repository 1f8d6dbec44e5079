"""Converts a table to a pandas or polars data frame."""

from __future__ import annotations

from typing import Any

from windlass.comparison.tables import Table


def to_data_frame(table: Table) -> Any:
    """Convert a table to a pandas data frame, or a polars one if pandas is missing.

    Return the table itself if neither library can be imported.
    """
    if (pandas := _library("pandas")) is not None:
        return pandas.DataFrame(table.rows, columns=list(table.columns))
    if (polars := _library("polars")) is not None:
        columns = [_series(polars, name, table.column(name)) for name in table.columns]
        return polars.DataFrame(columns)
    return table


def _library(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except Exception:  # noqa: BLE001 -- a broken installation may raise anything
        return None


def _series(polars: Any, name: str, values: list[Any]) -> Any:
    """Build a column for a polars data frame.

    A polars column has a single type, so values of mixed types become texts.
    """
    try:
        return polars.Series(name, values, strict=True)
    except (TypeError, ValueError, OverflowError, polars.exceptions.PolarsError):
        plain = [v if v is None or isinstance(v, str) else repr(v) for v in values]
        return polars.Series(name, plain, dtype=polars.String)
