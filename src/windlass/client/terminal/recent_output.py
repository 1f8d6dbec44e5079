"""Remembers what a view printed last, so that an error does not repeat it."""

from __future__ import annotations

from collections import deque

from windlass.model.logs import LogPart

_MOST = 500  # pieces of output; a traceback has fewer lines


class RecentOutput:
    r"""The last pieces of a trial's output.

    >>> recent = RecentOutput()
    >>> for text in ("a", "b", "c"):
    ...     recent.add(LogPart(time=0, stream="stderr", text=text))
    >>> recent.contains("b\nc\n"), recent.contains("a\nc\n")
    (True, False)
    """

    def __init__(self) -> None:
        self._parts: deque[LogPart] = deque(maxlen=_MOST)

    def add(self, part: LogPart) -> None:
        """Remember a piece of output."""
        self._parts.append(part)

    def contains(self, text: str) -> bool:
        """Return whether one replica wrote this text, to stderr alone or to both streams."""
        text = text.strip()
        errors: dict[tuple[str, int], str] = {}
        both: dict[tuple[str, int], str] = {}
        for part in self._parts:
            for texts in (both, errors) if part.stream == "stderr" else (both,):
                written = texts.get((part.role, part.index), "")
                texts[part.role, part.index] = written + part.text + "\n" * part.end
        return bool(text) and any(text in output for output in (*errors.values(), *both.values()))
