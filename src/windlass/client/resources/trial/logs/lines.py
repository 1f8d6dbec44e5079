"""Log lines and iterators over them, as users see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from windlass.model.logs import LogPart

if TYPE_CHECKING:
    from concurrent.futures import Future


class LogLine(str):
    """A log line: a string with attributes for its time, stream and trial.

    `trial_id` and `trial_name` identify the trial. `role`, `replica_index` and `attempt` identify
    the process in the trial that wrote the line.

    >>> line = LogLine.of(LogPart(time=1.5, stream="stderr", text="careful"))
    >>> line, line.stream
    ('careful', 'stderr')
    """

    time: float
    stream: str
    role: str
    replica_index: int
    attempt: int
    trial_id: int
    trial_name: str

    @classmethod
    def of(cls, part: LogPart, trial_id: int = 0, trial_name: str = "") -> LogLine:
        """Convert a log part to a whole line."""
        line = cls(part.text)
        line.time, line.stream = part.time, part.stream
        line.role, line.replica_index, line.attempt = part.role, part.index, part.attempt
        line.trial_id, line.trial_name = trial_id, trial_name
        return line


class LogLines(Iterator[LogLine]):
    """An iterator over log lines for `for` and `async for`. It fetches one page at a time.

    ```python
    trial = wl.get_trial(1)
    for line in trial.logs(search="loss"):
        print(line.time, line)
    print(trial.logs(search="nan").count())


    async def watch(trial):
        async for line in trial.logs(follow=True):
            print(line)
    ```
    """

    def __init__(
        self, pages: Iterator[list[LogLine]], count: Callable[[], int] | None = None
    ) -> None:
        self._pages = pages
        self._count = count
        self._at_hand: Iterator[LogLine] = iter(())
        self._next_page: Future[list[LogLine] | None] | None = None

    def __next__(self) -> LogLine:
        while (line := next(self._at_hand, None)) is None:
            page = self._next_page.result() if self._next_page else next(self._pages, None)
            self._take(page)
            if page is None:
                raise StopIteration
        return line

    def __repr__(self) -> str:
        return "<an iterator of log lines; list(...) collects all lines>"

    def count(self) -> int:
        """Count the lines. For a search, the server counts them without sending them."""
        return sum(1 for _ in self) if self._count is None else self._count()

    def __aiter__(self) -> LogLines:
        return self

    async def __anext__(self) -> LogLine:
        while (line := next(self._at_hand, None)) is None:
            page = await self._page()
            if page is None:
                raise StopAsyncIteration
        return line

    async def _page(self) -> list[LogLine] | None:
        """Fetch the next page of log lines in a thread.

        If the calling task is cancelled, the next call returns this page.
        """
        import asyncio

        if self._next_page is None:
            self._next_page = _in_thread(lambda: next(self._pages, None))
        page = await asyncio.shield(asyncio.wrap_future(self._next_page))
        self._take(page)
        return page

    def _take(self, page: list[LogLine] | None) -> None:
        self._next_page = None
        self._at_hand = iter(page or ())


def _in_thread(run: Callable[[], list[LogLine] | None]) -> Future[list[LogLine] | None]:
    """Run a function in a daemon thread, so that Python does not wait for it at exit."""
    import threading
    from concurrent.futures import Future

    done: Future[list[LogLine] | None] = Future()

    def work() -> None:
        try:
            done.set_result(run())
        except BaseException as error:  # noqa: BLE001 -- raised in the waiting thread
            done.set_exception(error)

    threading.Thread(target=work, name="windlass-logs", daemon=True).start()
    return done


class LineJoiner:
    """Joins log parts into whole lines. A part without a line end is held until the next part.

    >>> joiner = LineJoiner()
    >>> beginning = LogPart(time=1, stream="stdout", text="10%", end=False)
    >>> list(joiner.feed([beginning, LogPart(time=2, stream="stdout", text=" 20%")]))
    ['10% 20%']
    """

    def __init__(self, trial_id: int = 0, trial_name: str = "") -> None:
        self._whose = trial_id, trial_name
        self._open: dict[tuple[str, int, int, str], list[LogPart]] = {}

    def feed(self, parts: Iterable[LogPart]) -> Iterator[LogLine]:
        """Add log parts and yield the lines that they complete."""
        for part in parts:
            key = (part.role, part.index, part.attempt, part.stream)
            if not part.end:
                self._open.setdefault(key, []).append(part)
            elif key in self._open:
                yield LogLine.of(_join([*self._open.pop(key), part]), *self._whose)
            else:
                yield LogLine.of(part, *self._whose)

    def rest(self) -> Iterator[LogLine]:
        """Yield the unfinished lines. Call this method after the last part."""
        waiting, self._open = self._open, {}
        for parts in waiting.values():
            yield LogLine.of(_join(parts), *self._whose)


def _join(parts: list[LogPart]) -> LogPart:
    import msgspec

    return msgspec.structs.replace(parts[0], text="".join(part.text for part in parts))
