"""The status of a wait as HTML, which a notebook cell shows and updates in place."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.display.html.elements import ACCENT, text

_LONGEST = 300
_BLOCK = "font-size:13px;line-height:1.5;font-variant-numeric:tabular-nums"
_MONO = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;white-space:pre-wrap"


def status_html(notes: Sequence[str], status: str, clock: str, line: str) -> str:
    """Return the notes, the current status with its time, and the newest unfinished line.

    The HTML has no style sheet, because a notebook may contain it hundreds of times.

    >>> status_html([], "", "", "")
    ''
    """
    parts = [f'<div style="opacity:.7">{text(note, _LONGEST)}</div>' for note in notes]
    if status:
        time = f' <span style="opacity:.6">{text(clock)}</span>' if clock else ""
        parts.append(
            f'<div><span style="color:{ACCENT}">●</span> {text(status, _LONGEST)}{time}</div>'
        )
    if line:
        parts.append(f'<div style="{_MONO};opacity:.8">{text(line, _LONGEST)}</div>')
    return f'<div style="{_BLOCK}">{"".join(parts)}</div>' if parts else ""
