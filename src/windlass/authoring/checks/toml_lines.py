"""Finds the line number of each key in a TOML document.

TOML parsers do not report line numbers. By the time this module runs, a TOML parser has accepted
the document, so the module only finds keys and skips values without checking them.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from typing import Any

if sys.version_info >= (3, 11):
    from tomllib import TOMLDecodeError as TOMLDecodeError
    from tomllib import loads as loads
else:
    from tomli import TOMLDecodeError as TOMLDecodeError
    from tomli import loads as loads

Keys = tuple[str, ...]

_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# One or two quotes may precede the closing quotes of a multi-line string.
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:\\.|[^"\\])*"' r"|'[^']*'", re.DOTALL
)
_PLAIN = re.compile(r"[^,\n#\]}]+")


def key_lines(text: str) -> dict[Keys, int]:
    """Return the line number of each key path. Paths into arrays contain the index.

    >>> lines = key_lines("name = 'x'\\n[roles.chief]\\nargs = { lr = 1 }\\n[[more]]\\na.b = 2")
    >>> lines[("roles", "chief", "args", "lr")], lines[("more", "0", "a", "b")]
    (3, 5)
    """
    return _Scanner(text.replace("\r\n", "\n")).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._lines: dict[Keys, int] = {}
        self._tables: dict[Keys, int] = {}  # the number of tables so far in each array of tables

    def scan(self) -> dict[Keys, int]:
        table: Keys = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._entry(table)
            self._skip(_BLANK)
        return self._lines

    def _header(self) -> Keys:
        start = self._at
        is_of_array = self._text.startswith("[[", start)
        self._at += 2 if is_of_array else 1
        *above, last = self._key()
        self._at = self._text.index("]", self._at) + (2 if is_of_array else 1)
        table: Keys = ()
        for part in above:
            table = self._newest((*table, part))
            self._note(table, start)
        table = (*table, last)
        if is_of_array:
            self._note(table, start)
            self._tables[table] = self._tables.get(table, 0) + 1
            table = self._newest(table)
        self._note(table, start, is_own=True)
        return table

    def _newest(self, table: Keys) -> Keys:
        """Return a TOML table's key path. For an array of tables, return the last table's path."""
        count = self._tables.get(table)
        return table if count is None else (*table, str(count - 1))

    def _entry(self, table: Keys) -> None:
        start = self._at
        path = table
        for part in self._key():
            path = (*path, part)
            self._note(path, start)
        self._at += 1  # =
        self._value(path)

    def _key(self) -> Keys:
        parts: list[str] = []
        while True:
            self._skip(_SPACE)
            if self._text[self._at] in "\"'":
                parts.append(_unquoted(self._skip(_STRING)))
            else:
                parts.append(self._skip(_BARE_KEY))
            self._skip(_SPACE)
            if self._text[self._at] != ".":
                return tuple(parts)
            self._at += 1

    def _value(self, path: Keys) -> None:
        self._skip(_SPACE)
        first = self._text[self._at]
        if first in "\"'":
            self._skip(_STRING)
        elif first == "[":
            self._members("]", lambda index: self._element((*path, str(index))))
        elif first == "{":
            self._members("}", lambda _: self._entry(path))
        else:
            self._skip(_PLAIN)

    def _members(self, closing: str, member: Any) -> None:
        """Scan the comma-separated members of a TOML array or inline table."""
        self._at += 1
        index = 0
        self._skip(_BLANK)
        while self._text[self._at] != closing:
            member(index)
            index += 1
            self._skip(_BLANK)
            if self._text[self._at] == ",":
                self._at += 1
                self._skip(_BLANK)
        self._at += 1

    def _element(self, path: Keys) -> None:
        self._note(path, self._at)
        self._value(path)

    def _note(self, path: Keys, position: int, *, is_own: bool = False) -> None:
        """Record the line of a key.

        If the key has its own table header, the header's line is recorded, or else the line of the
        key's first occurrence.
        """
        if is_own or path not in self._lines:
            self._lines[path] = bisect_right(self._breaks, position - 1) + 1

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]


def _unquoted(key: str) -> str:
    text: str = loads(f"key = {key}")["key"]
    return text
