"""Merges the output of several replicas, with the replica's name on each line.

An unfinished line is held until it ends, so that no line mixes the output of two replicas. Only the
newest state of a progress bar is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from windlass.model.logs import LogPart

_LONGEST = 1 << 20  # characters; a longer line is printed before it ends
_PALETTE = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)  # no red, because red marks errors
# Output must not move the cursor back over its replica's name.
_MOVES = re.compile(r"\x1b\[[0-9;]*[A-GK]|\x08")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class OutputLine(NamedTuple):
    """A line from one replica that is ready to be printed."""

    name: str
    stream: str
    text: str


class Lanes:
    """Merges the output of several replicas into whole lines.

    >>> lanes = Lanes(["worker-0", "worker-1"])
    >>> begun = LogPart(time=1, stream="stdout", text="10%", end=False, role="worker")
    >>> other = LogPart(time=2, stream="stdout", text="hello", role="worker", index=1)
    >>> ended = LogPart(time=3, stream="stdout", text="\\r20%", role="worker")
    >>> [line.text for part in (begun, other, ended) for line in lanes.feed(part)]
    ['hello', '20%']
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._held: dict[tuple[str, str], _Held] = {}
        self.rename(names)

    def rename(self, names: Sequence[str]) -> None:
        """Set the names of all replicas in order. The number of replicas may differ from before."""
        self._positions = {name: position for position, name in enumerate(names)}
        self._width = max(map(len, names), default=0)

    def prefix(self, name: str, *, coloured: bool = False) -> str:
        """Return a replica's line prefix, which contains its padded name.

        A single replica has no name, and its lines have no prefix.

        >>> Lanes(["ps-0", "worker-0"]).prefix("ps-0")
        'ps-0     | '
        """
        if not self._positions:
            return ""
        text = f"{name:<{self._width}} |"
        if not coloured:
            return f"{text} "
        colour = _PALETTE[self._positions.get(name, len(self._positions)) % len(_PALETTE)]
        return f"\x1b[{colour}m{text}\x1b[0m "

    def feed(self, part: LogPart, now: float = 0.0) -> Iterator[OutputLine]:
        """Add a log part and yield the lines that it completes."""
        lane = (f"{part.role}-{part.index}", part.stream)
        held = self._held.get(lane)
        if held is not None and held.attempt != part.attempt:
            yield self._take(lane)  # the earlier attempt has ended and will not finish its line
            held = None
        if held is None and part.end:
            yield OutputLine(*lane, _as_it_stands(part.text))
            return
        if held is None:
            held = self._held[lane] = _Held(part.attempt, now)
        held.add(part.text)
        if part.end or held.size > _LONGEST:
            yield self._take(lane)

    def rest(self) -> Iterator[OutputLine]:
        """Yield the unfinished lines. Call this method after the last part."""
        for lane in list(self._held):
            yield self._take(lane)

    def unended(self, before: float) -> OutputLine | None:
        """Return an unfinished line that started before the given time, or None.

        If several replicas have such a line, return the first replica's line.
        """
        waiting = [lane for lane, held in self._held.items() if held.since <= before]
        if not waiting:
            return None
        lane = min(
            waiting,
            key=lambda lane: self._positions.get(lane[0], len(self._positions)),
        )
        return OutputLine(*lane, _as_it_stands(self._held[lane].text))

    def _take(self, lane: tuple[str, str]) -> OutputLine:
        return OutputLine(*lane, _as_it_stands(self._held.pop(lane).text))


class _Held:
    """An unfinished line that collects pieces until it ends.

    Overwritten pieces are discarded, because a progress bar may consist of a million pieces.
    """

    def __init__(self, attempt: int, since: float) -> None:
        self.attempt = attempt
        self.since = since
        self.size = 0
        self._pieces: list[str] = []

    def add(self, text: str) -> None:
        goes_back = bool(self._pieces) and self._pieces[-1].endswith("\r")
        if text.strip("\r") and (goes_back or "\r" in text.rstrip("\r")):
            self._pieces, self.size = [], 0
        self._pieces.append(text)
        self.size += len(text)

    @property
    def text(self) -> str:
        return "".join(self._pieces)


def contained(text: str) -> str:
    r"""Remove characters that move the cursor out of the line, but keep colours.

    >>> contained("\x1b[31mred\x1b[K up\x1b[A")
    '\x1b[31mred up\x1b[0m'
    """
    text = _MOVES.sub("", text)
    return f"{text}\x1b[0m" if "\x1b[" in text else text


def uncoloured(text: str) -> str:
    """Remove colours and cursor movements from text."""
    return _COLOURS.sub("", _MOVES.sub("", text))


def _as_it_stands(text: str) -> str:
    """Return the last state of a line that carriage returns redraw.

    >>> _as_it_stands("10%\\r20%\\r")
    '20%'
    """
    return text.rstrip("\r").rpartition("\r")[2]
