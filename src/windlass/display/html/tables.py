"""Tables as HTML, with aligned numbers and only as many rows as fit."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.display.html.elements import Budget, dot, fragment, line, span, text
from windlass.display.table import Cell, Column, Row, text_of

_LONGEST = 120  # characters of a cell


class Html(str):
    """A cell's content that is HTML already, such as a curve."""

    __slots__ = ()


HtmlRow = Sequence[str | Cell | Html]


def table(
    columns: Sequence[Column],
    rows: Sequence[Row | HtmlRow],
    budget: Budget,
    *,
    more: str = "",
    hides_empty: bool = False,
) -> str:
    """Return a table that fits a budget. `more` describes rows that the caller left out."""
    columns, rows = _without_empty(columns, rows) if hides_empty else (columns, rows)
    heads = "".join(
        f"<th{_kind(column, wraps=False)}>{text(column.head)}</th>" for column in columns
    )
    lines = list(budget.limit(_row(columns, row) for row in rows))
    left = len(rows) - len(lines)
    if left:
        more = f"{left} more rows are not shown."
    note = line(span(more, "dim")) if more else ""
    body = "".join(lines)
    return f'<table class="wl-t"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{note}'


def table_page(
    columns: Sequence[Column],
    rows: Sequence[Row | HtmlRow],
    *,
    more: str = "",
    hides_empty: bool = False,
) -> str:
    """Return a fragment that consists of one table."""
    return fragment(table(columns, rows, Budget(), more=more, hides_empty=hides_empty))


def _without_empty(
    columns: Sequence[Column], rows: Sequence[HtmlRow]
) -> tuple[Sequence[Column], Sequence[HtmlRow]]:
    """Leave out the columns that have no value in any row."""
    full = [i for i in range(len(columns)) if any(text_of(row[i]) not in ("", "-") for row in rows)]
    return [columns[i] for i in full], [[row[i] for i in full] for row in rows]


def _row(columns: Sequence[Column], cells: HtmlRow) -> str:
    parts = (
        f"<td{_kind(column)}>{_content(cell)}</td>"
        for column, cell in zip(columns, cells, strict=True)
    )
    return f"<tr>{''.join(parts)}</tr>"


def _kind(column: Column, *, wraps: bool = True) -> str:
    if column.is_number:
        return ' class="wl-n"'
    return ' class="wl-w"' if column.shrinks and wraps else ""


def _content(cell: str | Cell | Html) -> str:
    if isinstance(cell, Html):
        return cell
    if not isinstance(cell, Cell):
        return text(cell, _LONGEST)
    if cell.is_state:
        return dot(cell.style) + text(cell.text)
    return span(cell.text[:_LONGEST], cell.style)
