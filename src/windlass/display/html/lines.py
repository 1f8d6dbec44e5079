"""Lines of styled text as HTML, such as differences and the progress of a wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from windlass.display.html.elements import Budget, fragment, span
from windlass.model.text.display import clean_lines

_LONGEST = 500  # characters of one line's part

# The styles of comparisons and of the terminal that differ from the style sheet's names.
_STYLES = {"head": "bold", "name": "bold", "hunk": "cyan"}

StyledLine = Sequence[tuple[str, str]]  # texts with their styles


def lines_page(lines: Iterable[StyledLine], *, rest: str = "") -> str:
    """Return a fragment that consists of lines. `rest` is text that says how to see all lines."""
    budget = Budget()
    body = "".join(budget.limit(_line(line) for line in lines))
    more = span(f"More lines are not shown. {rest}".rstrip(), "dim") if budget.has_cut else ""
    return fragment(f'<div class="wl-l">{body}{more}</div>')


def _line(line: StyledLine) -> str:
    return "".join(_part(*part) for part in line) + "\n"


def _part(value: str, style: str) -> str:
    """Escape a part of a line. Spaces are kept, because they align columns."""
    content = escape(clean_lines(value[:_LONGEST]).replace("\n", " "))
    return f'<span class="wl-{_STYLES.get(style, style)}">{content}</span>' if style else content
