"""The output pump, which copies output from pipes to the log, masking secrets."""

from __future__ import annotations

import os
import time

from windlass.worker.common.mask_secrets import Masker
from windlass.worker.logs.segment import TEXT_LIMIT, SegmentWriter, encode_lines, encode_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# All lines within one read are then shorter than the record limit, so they need no check.
_READ_SIZE = TEXT_LIMIT - 4096
_PATIENCE = 0.03  # seconds before an unfinished line is written
_PATIENCE_WITH_SECRETS = 1.0  # seconds to wait for the end of a possible secret
_PATIENCE_WITH_SUSPECTS = 60.0  # seconds to wait for the end of a likely secret


class Stream:
    """One of a program's pipes, whose output arrives in pieces."""

    def __init__(self, fd: int, name: str, secrets: Sequence[str], log: SegmentWriter) -> None:
        self.fd = fd
        self.due: float | None = None  # when `flush` should be called
        self.was_full = False  # whether the last read filled the buffer
        self._name = name
        self._masker = Masker(secrets) if secrets else None
        self._log = log
        self._line = b""  # the beginning of an unfinished line

    def read(self, now: float) -> bool:
        """Read the pipe's available output and log it. Return whether the pipe is still open."""
        try:
            data = os.read(self.fd, _READ_SIZE)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if data:
            self.was_full = len(data) == _READ_SIZE
            self._take(self._masker.feed(data) if self._masker else data)
            self._set_due(now)
            return True
        return False

    def finish(self) -> None:
        """Log all remaining text, because the pipe has reached its end."""
        self._give_up_waiting()
        self._write_unfinished(self._line)
        self._line, self.due = b"", None

    def end_piece(self) -> None:
        """Log the start of an unfinished line now, before later output of another stream.

        Text that may be the start of a secret keeps waiting.
        """
        if self._line and not (self._masker and self._masker.is_holding):
            text = self._line[: _whole_characters(self._line)]
            self._write_unfinished(text)
            self._line = self._line[len(text) :]

    def flush(self, now: float) -> None:
        """Log the stream's unfinished line if it has waited long enough."""
        if self.due is None or now < self.due:
            return
        if self._line:
            text = self._line[: _whole_characters(self._line)]
            self._write_unfinished(text)
            self._line = self._line[len(text) :]
            self.due = None
            if self._masker and self._masker.is_holding:
                self.due = now + self._patience()
        else:
            self.due = None
            self._give_up_waiting()
            self._set_due(now)

    def _set_due(self, now: float) -> None:
        if self._line:
            # Count from a line's first piece, so that a line that keeps growing is written in time.
            self.due = now + _PATIENCE if self.due is None else min(self.due, now + _PATIENCE)
        elif self._masker and self._masker.is_holding:
            self.due = now + self._patience()
        else:
            self.due = None

    def _patience(self) -> float:
        is_suspicious = self._masker is not None and self._masker.is_suspicious
        return _PATIENCE_WITH_SUSPECTS if is_suspicious else _PATIENCE_WITH_SECRETS

    def _give_up_waiting(self) -> None:
        if self._masker:
            self._take(self._masker.release())

    def _take(self, text: bytes) -> None:
        text = self._line + text
        end = text.rfind(b"\n") + 1
        lines, self._line = text[:end], text[end:]
        if lines:
            self._write_lines(lines)
        while len(self._line) > TEXT_LIMIT:
            self._line = self._write_piece(self._line)

    def _write_lines(self, lines: bytes) -> None:
        # Only the first line can be too long, because all others lie within one read.
        while len(lines) > TEXT_LIMIT and lines.find(b"\n", 0, TEXT_LIMIT + 1) < 0:
            lines = self._write_piece(lines)
        self._log.add(encode_lines(time.time(), self._name, lines))

    def _write_piece(self, text: bytes) -> bytes:
        """Log as much of the text as fits into one record, and return the rest."""
        piece = text[:TEXT_LIMIT]
        piece = piece[: _whole_characters(piece) or TEXT_LIMIT]
        self._write_unfinished(piece)
        return text[len(piece) :]

    def _write_unfinished(self, text: bytes) -> None:
        if text:
            self._log.add(encode_open(time.time(), self._name, text))


def _whole_characters(text: bytes) -> int:
    """Return the length of text without an incomplete UTF-8 character at its end.

    >>> _whole_characters("né".encode()), _whole_characters("né".encode()[:-1])
    (3, 1)
    >>> _whole_characters(b"bad \\xff\\xff")
    6
    """
    for back in range(1, min(4, len(text)) + 1):
        byte = text[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4
        begun = byte & 0xC0 == 0xC0 and byte < 0xF8 and needed > back
        return len(text) - back if begun else len(text)
    return len(text)
