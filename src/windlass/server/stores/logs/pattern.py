"""Search patterns for logs: a literal text or a regular expression for the library RE2.

RE2 searches whole blocks of a log file, including the header (time and stream) of each record. For
every expression, the search time is linear in the input, and RE2 releases the interpreter lock. A
match in a block is only a candidate. It counts only if the record's text matches without the
header.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from windlass.model.errors import InvalidArgument, shown
from windlass.server.stores.logs.regex_literals import required_literals
from windlass.worker.logs.segment import HEADER_WIDTH, has_header, read_parts

LONGEST = 1000  # characters in a literal text or an expression
# The largest sum of repetition counts such as {100}. RE2 needs minutes to compile larger sums.
_MOST_REPEATED = 2000
_MOST_CLASSES = 50  # Unicode classes such as \pL, each of which has hundreds of ranges
# The most bytes in a compiled expression. RE2 checks the size only after compiling, which blocks
# all threads of this process. With this limit, compiling takes some hundredths of a second.
_LARGEST_PROGRAM = 1 << 20

_PATIENCE = 64  # false candidates in a block before a slower but more exact search takes over
_SAMPLE = 64 * 1024  # bytes of a block in which the bytes are counted to find rare ones
_WITHOUT_HEADER = operator.itemgetter(slice(HEADER_WIDTH, None))

RecordMatch = tuple[int, int, bool]  # a record's start and end, and whether its text matches
Way = Callable[[bytearray, int, int], Iterator[RecordMatch]]


class Pattern:
    """A search pattern. A line matches if it contains the literal text or matches the expression.

    >>> block = bytearray(b"1763244000.000000:o loss 1\\n1763244001.000000:o loss nan\\n")
    >>> list(Pattern("nan").records(block)), list(Pattern("^l.*1$", is_regex=True).records(block))
    ([27], [0])
    """

    def __init__(self, text: str, *, is_regex: bool = False) -> None:
        _check(text)
        if is_regex:
            _check_size(text)
        raw = text.encode("utf-8", "surrogatepass")
        self._line = _compile(raw) if is_regex else _compile_literal(raw)
        self._text = None if is_regex else raw
        self._literals = required_literals(text) if is_regex else (raw,)
        # Created when the first block is searched, because its bytes show which bytes are rare.
        self._literal_scans: list[Any] = []
        self._ways = self._plan(text if is_regex else "")
        self._way = 0  # the index of the first way that has not had too many false candidates

    def matches(self, text: bytes) -> bool:
        """Return whether a log line's text matches the pattern."""
        if self._text is not None:
            return self._text in text
        return self._line.search(text) is not None

    def records(self, block: bytearray, end: int | None = None) -> Iterator[int]:
        """Yield, in order, the offset of each log record before `end` whose text matches.

        The record's header does not count as text.
        """
        at, end = 0, len(block) if end is None else end
        while at < end:
            wrong = 0
            for record, after, is_right in self._ways[self._way](block, at, end):
                at = after
                if is_right:
                    yield record
                    continue
                wrong += 1
                if wrong > _PATIENCE and self._way + 1 < len(self._ways):
                    self._way += 1
                    break
            else:
                return

    def _plan(self, expression: str) -> list[Way]:
        """Return the search methods for this pattern, fastest first.

        Each method finds fewer false candidates than the preceding one.
        """
        plain = re.sub(r"\\[^AzZQC]", "..", expression)
        flags = re.findall(r"\(\?([a-zA-Z]*(?:-[a-zA-Z]+)?)[:)]", plain)
        if re.search(r"\\[AzZQC]", plain) or any("m" in flag for flag in flags):
            # The meaning of these expressions depends on the end of the text.
            return [self._line_by_line]
        ways: list[Way] = [self._without_headers]
        if not re.search(r"(?<!\[)\^", plain):
            ways.insert(0, self._among_headers)
        if self._text is not None:
            return [self._by_literals, self._without_headers]
        if self._literals and min(map(len, self._literals)) > 1:
            ways.insert(0, self._by_literals)
        return ways

    def _by_literals(self, block: bytearray, at: int, end: int) -> Iterator[RecordMatch]:
        if not self._literal_scans:
            sample = bytes(block[:_SAMPLE])
            self._literal_scans = [_scan_for(literal, sample) for literal in self._literals]
        return self._candidates(self._literal_scans, block, at, end)

    def _among_headers(self, block: bytearray, at: int, end: int) -> Iterator[RecordMatch]:
        return self._candidates([self._line], block, at, end)

    def _candidates(
        self, scans: Sequence[Any], block: bytearray, at: int, end: int
    ) -> Iterator[RecordMatch]:
        """Yield the records of a block in which at least one scan finds a match, headers included.

        For each record, yield its offset, the offset after it, and whether its text really matches.
        """
        heads = [_next_match(scan, block, at, end) for scan in scans]
        while (first := min(heads)) < end:
            record = block.rfind(b"\n", 0, first) + 1
            at = block.index(b"\n", first) + 1
            line = bytes(block[record : at - 1])
            yield record, at, has_header(line) and self.matches(line[HEADER_WIDTH:])
            heads = [
                head if head >= at else _next_match(scan, block, at, end)
                for scan, head in zip(scans, heads, strict=True)
            ]

    def _without_headers(self, block: bytearray, at: int, end: int) -> Iterator[RecordMatch]:
        """Search a copy of the block from which the record headers are removed.

        All headers have the same width, so offsets in the original block can be computed.
        """
        lines = bytes(block[at:end]).split(b"\n")
        text = b"\n".join(map(_WITHOUT_HEADER, lines))
        if len(text) != end - at - HEADER_WIDTH * (len(lines) - 1):
            # Part of the block is not a record, for example after a machine crash.
            yield from self._line_by_line(block, at, end)
            return
        number = position = 0  # the number of newlines before `position`
        last = -1
        for match in self._line.finditer(text):
            if match.start() == len(text):
                return  # an empty match after the last line
            number += text.count(b"\n", position, match.start())
            position = match.start()
            if number == last:
                continue
            last = number
            record = at + text.rfind(b"\n", 0, position) + 1 + number * HEADER_WIDTH
            after = block.index(b"\n", record) + 1
            yield record, after, has_header(bytes(block[record : record + HEADER_WIDTH]))

    def _line_by_line(self, block: bytearray, at: int, end: int) -> Iterator[RecordMatch]:
        for _, _, text, _, after in read_parts(bytes(block[at:end]), at):
            if self.matches(text):
                yield after - len(text) - HEADER_WIDTH - 1, after, True


def _next_match(scan: Any, block: bytearray, at: int, end: int) -> int:
    """Return the offset of a scan's next match in a block, or `end` if there is none."""
    match = scan.search(block, at, end)
    return end if match is None else int(match.start())


def _scan_for(literal: bytes, sample: bytes) -> Any:
    """Return a search for the end of a literal, from one of the literal's rare bytes on.

    RE2 jumps from one occurrence of the first byte to the next, so a rare first byte makes the
    search fast.
    """
    starts = range(max(len(literal) // 2, 1))
    start = min(starts, key=lambda position: sample.count(literal[position : position + 1]))
    return _compile_literal(literal[start:])


def _check(text: str) -> None:
    if not text:
        raise InvalidArgument("The search text is empty.")
    if len(text) > LONGEST:
        raise InvalidArgument(f"A search text has at most {LONGEST} characters.")
    if "\n" in text:
        raise InvalidArgument(
            "A search matches single lines, so its text cannot contain a line break.",
            hint="Search for the text of one line.",
        )


def _check_size(expression: str) -> None:
    """Refuse expressions that RE2 compiles slowly, because compilation cannot be interrupted."""
    if len(re.findall(r"\\[pP]", expression)) > _MOST_CLASSES:
        raise InvalidArgument(
            f"{shown(expression)} has more than {_MOST_CLASSES} Unicode classes such as \\pL.",
            hint="Repeat a class, as in \\pL+, or combine several: [\\pL\\pN].",
        )
    # The compile time grows with the square of the repetition counts.
    bounds = re.findall(r"\{(\d{1,4})(?:,(\d{0,4}))?\}", expression, re.ASCII)
    if sum(int(most or least) for least, most in bounds) > _MOST_REPEATED:
        raise InvalidArgument(
            f"{shown(expression)} repeats too much: its counts add up to more than "
            f"{_MOST_REPEATED:,}.",
            hint="Write * or + instead of a large count, as in .* for .{0,1000}.",
        )


def _compile(expression: bytes, *, is_literal: bool = False) -> Any:
    """Compile an expression for blocks of many lines so that no match spans two lines."""
    import re2  # imported here, because most servers never search logs

    options = re2.Options()
    options.never_nl = options.never_capture = True
    options.log_errors = False
    if is_literal:  # the literal may start in the middle of a character
        options.encoding = re2.Options.Encoding.LATIN1
        expression = re2.escape(expression)
    try:
        if (
            not is_literal
        ):  # compile with a small memory limit first to check the size, then with the normal limit
            full, options.max_mem = options.max_mem, _LARGEST_PROGRAM
            re2.compile(b"(?m)" + expression, options)
            options.max_mem = full
        return re2.compile(b"(?m)" + expression, options)
    except re2.error as error:
        why = error.args[0] if error.args else error
        why = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        text = shown(expression.decode("utf-8", "replace"))
        raise InvalidArgument(
            f"{text} is not a valid regular expression: {why.replace('(?m)', '', 1)}.",
            hint="Use the syntax of RE2: as in Python, without look-around and "
            "back-references. To search for literal text, remove regex.",
        ) from None
    finally:
        re2.purge()  # otherwise RE2 would cache 128 compiled expressions of megabytes each


def _compile_literal(text: bytes) -> Any:
    return _compile(text, is_literal=True)
