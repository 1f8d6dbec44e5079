"""Log lines as users see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from windlass.model.wire import LogPart


class LogLine(str):
    """A line a trial wrote: a string that knows when, where and by whom.

    >>> line = LogLine.of(LogPart(time=1.5, stream="stderr", text="careful"))
    >>> line, line.stream
    ('careful', 'stderr')
    """

    time: float
    stream: str
    role: str
    replica_index: int
    attempt: int

    @classmethod
    def of(cls, part: LogPart) -> LogLine:
        """The line that a part is, taken as whole."""
        line = cls(part.text)
        line.time, line.stream = part.time, part.stream
        line.role, line.replica_index, line.attempt = part.role, part.index, part.attempt
        return line


class LineJoiner:
    """Puts the parts of a line together: a part without its end waits for the next.

    >>> joiner = LineJoiner()
    >>> beginning = LogPart(time=1, stream="stdout", text="10%", end=False)
    >>> list(joiner.feed([beginning, LogPart(time=2, stream="stdout", text=" 20%")]))
    ['10% 20%']
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, int, int, str], list[LogPart]] = {}

    def feed(self, parts: Iterable[LogPart]) -> Iterator[LogLine]:
        """The lines that are whole now."""
        for part in parts:
            key = (part.role, part.index, part.attempt, part.stream)
            if not part.end:
                self._open.setdefault(key, []).append(part)
            elif key in self._open:
                yield _join([*self._open.pop(key), part])
            else:
                yield LogLine.of(part)

    def rest(self) -> Iterator[LogLine]:
        """What is left when nothing more will come."""
        waiting, self._open = self._open, {}
        for parts in waiting.values():
            yield _join(parts)


def _join(parts: list[LogPart]) -> LogLine:
    import msgspec

    return LogLine.of(msgspec.structs.replace(parts[0], text="".join(part.text for part in parts)))
