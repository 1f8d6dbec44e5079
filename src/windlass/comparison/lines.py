"""Computes the unified diff of two files in limited time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

_CONTEXT = 3
_LOOKED_AT = 8000  # a NUL in this many first bytes makes a file binary, as in git
# Comparing more lines would take seconds. Common lines at the beginning and end are excluded. If
# more lines remain, all of them are reported as removed and added.
_MOST_MATCHED = 6000
_NO_NEWLINE = "\\ No newline at end of file"

Block = tuple[int, int, int, int]  # start and end of the removed lines, then of the added lines


class LineDiff(NamedTuple):
    """A unified diff, with the number of added and removed lines."""

    lines: tuple[str, ...]
    added: int
    removed: int


def is_binary(data: bytes) -> bool:
    r"""Return True if the data is binary rather than text.

    >>> is_binary(b"plain"), is_binary(b"\x7fELF\0\0")
    (False, True)
    """
    return b"\0" in data[:_LOOKED_AT]


def diff_lines(before: bytes, after: bytes) -> LineDiff:
    r"""Return the unified diff of two texts. Bytes that are not UTF-8 become lone surrogates.

    >>> print(*diff_lines(b"a\nb\nc\n", b"a\nB\nc\n").lines, sep="\n")
    @@ -1,3 +1,3 @@
     a
    -b
    +B
     c
    """
    old, new = _split(before), _split(after)
    lines: list[str] = []
    added = removed = 0
    for hunk in _hunks(_changed_blocks(old, new), len(old), len(new)):
        lines.append(_heading(hunk))
        for sign, line in _hunk_lines(hunk, old, new):
            added += sign == "+"
            removed += sign == "-"
            lines.append(sign + line.removesuffix("\n"))
            if not line.endswith("\n"):
                lines.append(_NO_NEWLINE)
    return LineDiff(tuple(lines), added, removed)


def _split(data: bytes) -> list[str]:
    text = data.decode("utf-8", "surrogateescape")
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]  # the text after the last newline, which may be empty
    return lines if lines[-1] else lines[:-1]


def _changed_blocks(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    old_end, new_end = len(old) - end, len(new) - end
    if start == old_end and start == new_end:
        return []
    is_one = start in (old_end, new_end) or old_end + new_end - 2 * start > _MOST_MATCHED
    if is_one:
        return [(start, old_end, start, new_end)]
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, old[start:old_end], new[start:new_end])
    return [
        (start + a, start + b, start + c, start + d)
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]


def _hunks(blocks: Sequence[Block], old: int, new: int) -> Iterator[list[Block]]:
    """Yield a diff's hunks. Blocks whose context lines overlap belong to the same hunk."""
    hunk: list[Block] = []
    for block in blocks:
        if hunk and block[0] - hunk[-1][1] > 2 * _CONTEXT:
            yield _with_context(hunk, old, new)
            hunk = []
        hunk.append(block)
    if hunk:
        yield _with_context(hunk, old, new)


def _with_context(hunk: list[Block], old: int, new: int) -> list[Block]:
    """Add an empty block before and after a hunk's blocks of changed lines.

    These blocks mark the start and the end of the context lines.
    """
    first, last = hunk[0], hunk[-1]
    lead = min(_CONTEXT, first[0])
    trail = min(_CONTEXT, old - last[1], new - last[3])
    begin = (first[0] - lead, first[0] - lead, first[2] - lead, first[2] - lead)
    end = (last[1] + trail, last[1] + trail, last[3] + trail, last[3] + trail)
    return [begin, *hunk, end]


def _hunk_lines(
    hunk: Sequence[Block], old: Sequence[str], new: Sequence[str]
) -> Iterator[tuple[str, str]]:
    position = hunk[0][0]
    for out, out_end, into, into_end in hunk:
        yield from ((" ", line) for line in old[position:out])
        yield from (("-", line) for line in old[out:out_end])
        yield from (("+", line) for line in new[into:into_end])
        position = out_end


def _heading(hunk: Sequence[Block]) -> str:
    begin, end = hunk[0], hunk[-1]
    return f"@@ -{_range(begin[0], end[1])} +{_range(begin[2], end[3])} @@"


def _range(start: int, end: int) -> str:
    """Format a range of lines as `diff -u` does.

    Lines are counted from 1. An empty range is written as the number of the line before it.
    """
    if end - start == 1:
        return f"{start + 1}"
    return f"{start if start == end else start + 1},{end - start}"
