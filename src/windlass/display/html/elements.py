"""The style sheet of all HTML fragments, and functions that escape and mark text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from windlass.model.text.display import clean, shorten

MOST_BYTES = 20_000  # of one fragment, so that saved notebooks stay small
_RESERVE = 600  # bytes for the end of a fragment
_LONGEST = 200  # characters of one text

# Tones that have a contrast of at least 3:1 with white and with nearly black.
_TONES = {
    "green": "#2f9e5f",
    "cyan": "#3d85c6",
    "yellow": "#b7851f",
    "red": "#d6504a",
    "magenta": "#a66bbe",
}
ACCENT = _TONES["cyan"]

# A notebook has its own rules for tables. The selectors below are specific enough to win.
_STYLE = (
    ".windlass{font-size:13px;line-height:1.5;font-variant-numeric:tabular-nums;overflow-x:auto}"
    "div.windlass table.wl-t{border-collapse:collapse;border:0;margin:2px 0 6px;width:auto;"
    "table-layout:auto;font-size:inherit;color:inherit;background:none}"
    "div.windlass table.wl-t td,div.windlass table.wl-t th{text-align:left;padding:3px 18px 3px 0;"
    "border:0;vertical-align:baseline;background:none;white-space:nowrap;max-width:none}"
    "div.windlass table.wl-t tbody tr,div.windlass table.wl-t thead tr{background:none;border:0}"
    "div.windlass table.wl-t thead th{font-weight:500;font-size:11px;letter-spacing:.03em;"
    "opacity:.6;border-bottom:1px solid rgba(128,128,128,.5)}"
    "div.windlass table.wl-t tbody tr:hover{background:rgba(128,128,128,.1)}"
    "div.windlass table.wl-t tr>:last-child{padding-right:4px}"
    "div.windlass table.wl-t .wl-n{text-align:right}"
    "div.windlass table.wl-t .wl-w{overflow:hidden;text-overflow:ellipsis;max-width:21em}"
    "div.windlass table.wl-t .wl-w:only-child{max-width:none}"
    ".windlass .wl-f{display:flex}.windlass .wl-f>:first-child{flex:0 0 84px;opacity:.62}"
    ".windlass svg{vertical-align:middle;overflow:visible;margin:1px 0}"
    ".windlass .wl-l{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;"
    "white-space:pre-wrap;overflow-wrap:anywhere}"
    ".windlass .wl-bold{font-weight:600}.windlass .wl-dim{opacity:.62}"
    ".windlass .wl-added{background:rgba(47,158,95,.2)}"
    ".windlass .wl-removed{background:rgba(214,80,74,.2)}"
    + "".join(f".windlass .wl-{name}{{color:{tone}}}" for name, tone in _TONES.items())
)


def fragment(*parts: str) -> str:
    """Wrap HTML parts into one fragment with the style sheet."""
    return f'<div class="windlass"><style>{_STYLE}</style>{"".join(parts)}</div>'


def text(value: str, longest: int = _LONGEST) -> str:
    r"""Escape untrusted text for HTML, as one line without control characters.

    >>> text("<b>\x1b[31m&\n")
    '&lt;b&gt;\\x1b[31m&amp;'
    """
    return escape(shorten(clean(value[: 2 * longest]), longest))


def span(value: str, style: str = "") -> str:
    """Escape text and mark it with a style: a colour, `bold`, `dim`, `added` or `removed`.

    >>> span("2h ago", "dim"), span("plain")
    ('<span class="wl-dim">2h ago</span>', 'plain')
    """
    return f'<span class="wl-{style}">{text(value)}</span>' if style else text(value)


def fact(name: str, content: str) -> str:
    """Return a line with a name, which this function escapes, and content, which is HTML."""
    return f'<div class="wl-f"><span>{text(name)}</span><span>{content}</span></div>'


def dot(colour: str) -> str:
    """Return a round mark in the colour of a state."""
    return f'<span class="wl-{colour}">●</span> '


def line(*parts: str) -> str:
    """Return HTML parts as one line."""
    return f"<div>{' '.join(part for part in parts if part)}</div>"


class Budget:
    """The bytes that a fragment has left.

    >>> budget = Budget()
    >>> len(list(budget.limit(["x" * 1000] * 100)))
    17
    >>> budget.has_cut
    True
    """

    def __init__(self, *parts: str) -> None:
        """Create the budget of a fragment that already contains some parts."""
        self._left = MOST_BYTES - _RESERVE - len(fragment(*parts).encode())
        self.has_cut = False

    def limit(self, parts: Iterable[str]) -> Iterator[str]:
        """Yield the parts until one of them no longer fits."""
        for part in parts:
            size = len(part.encode())
            if size > self._left:
                self.has_cut = True
                return
            self._left -= size
            yield part
