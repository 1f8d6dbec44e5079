"""Replaces secrets in a process's output with `***`, even if a secret is split between reads."""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MASK = "***"
SHORTEST = 4  # characters; masking shorter values would make much of a log unreadable


def secret_texts(values: Iterable[str]) -> list[str]:
    """Return the texts to mask, longest first.

    These are all values, the lines of multi-line values, and each of these texts as written by
    `repr` or JSON.

    >>> secret_texts(["hunter2", "abc", "first line\\nsecond"])
    ['first line\\\\nsecond', 'first line\\nsecond', 'first line', 'hunter2', 'second']
    """
    texts = {value for value in values if len(value) >= SHORTEST}
    for value in list(texts):
        texts.update(line.strip() for line in value.splitlines() if len(line.strip()) >= SHORTEST)
    for text in list(texts):
        texts.update((repr(text)[1:-1], json.dumps(text)[1:-1]))
    return sorted(texts, key=lambda text: (-len(text), text))


def mask_text(text: str, values: Iterable[str]) -> str:
    """Return text with all secrets masked.

    >>> mask_text("login with hunter2", ["hunter2"])
    'login with ***'
    """
    for secret in secret_texts(values):
        text = text.replace(secret, MASK)
    return text


class Masker:
    """Masks secrets in a stream of bytes that arrives in pieces.

    If a piece ends with what may be the start of a secret, these bytes are held back until more
    bytes arrive or `release` is called.

    >>> masker = Masker(["hunter2"])
    >>> masker.feed(b"password: hunt"), masker.feed(b"er2!")
    (b'password: ', b'***!')
    >>> masker.feed(b"hunt"), masker.is_holding, masker.release()
    (b'', True, b'hunt')
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._secrets = [text.encode("utf-8", "surrogateescape") for text in secret_texts(values)]
        self._longest = max(map(len, self._secrets), default=0)
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets)))
        self._held = b""

    @property
    def is_holding(self) -> bool:
        return self._held != b""

    @property
    def is_suspicious(self) -> bool:
        """Return whether the bytes held back are almost certainly part of a secret."""
        return len(self._held) >= SHORTEST

    def feed(self, data: bytes) -> bytes:
        """Process the next bytes of output. Return the masked bytes that are now safe to show."""
        if not self._secrets:
            return data
        data = self._held + data
        cut = self._begin_of_secret(data)
        return self._mask(data, cut)

    def release(self) -> bytes:
        """Return the bytes that were held back because they might start a secret."""
        held, self._held = self._held, b""
        return self._pattern.sub(MASK.encode(), held) if held else b""

    def _mask(self, data: bytes, cut: int) -> bytes:
        if any(secret in data for secret in self._secrets):
            for match in self._pattern.finditer(data):
                if match.start() < cut < match.end():
                    cut = match.end()
            self._held = data[cut:]
            return self._pattern.sub(MASK.encode(), data[:cut])
        self._held = data[cut:]
        return data[:cut]

    def _begin_of_secret(self, data: bytes) -> int:
        """Return the offset in `data` where the start of a possible secret begins."""
        cut = len(data)
        for secret in self._secrets:
            start = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
            while 0 <= start < cut:
                if secret.startswith(data[start:]):
                    cut = start
                    break
                start = data.find(secret[:1], start + 1)
        return cut
