"""The next items of a list as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.display.html.elements import fragment, line, span
from windlass.display.html.tables import table_page
from windlass.display.listing import MORE, listing_table, nothing


def listing_page(items: Sequence[object], now: float, *, has_more: bool, is_begun: bool) -> str:
    """Return items of a list as a table."""
    if not items:
        return fragment(line(span(nothing(is_begun=is_begun), "dim")))
    columns, rows = listing_table(items, now)
    return table_page(columns, rows, more=MORE if has_more else "", hides_empty=True)
