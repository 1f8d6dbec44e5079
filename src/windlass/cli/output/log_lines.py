"""Formats log lines with timestamps or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from windlass.cli.output.json import json_line
from windlass.cli.output.text import format_moment

if TYPE_CHECKING:
    from windlass.client.resources.trial.logs.lines import LogLine
    from windlass.model.logs import LogPart


class Clock:
    """Adds timestamps to log lines.

    A line may arrive in several parts, of which only the first gets a timestamp.
    """

    def __init__(self) -> None:
        self._open: set[tuple[str, int, int, str]] = set()

    def stamp(self, part: LogPart) -> LogPart:
        """Return a log part, prefixed with a timestamp if the part starts a line."""
        key = (part.role, part.index, part.attempt, part.stream)
        is_new = key not in self._open
        (self._open.discard if part.end else self._open.add)(key)
        if not is_new:
            return part
        moment = f"{format_moment(part.time)}.{int(part.time % 1 * 1000):03}"
        return msgspec.structs.replace(part, text=f"{moment}  {part.text}")


def print_json_lines(lines: Iterable[LogLine], *, with_trial: bool = False) -> None:
    """Print log lines as JSON objects, in one write. `with_trial` adds the trial's id."""
    sys.stdout.write("".join(_as_json(line, with_trial=with_trial) for line in lines))
    sys.stdout.flush()


def _as_json(line: LogLine, *, with_trial: bool) -> str:
    whose: dict[str, str | int] = {}
    if with_trial:
        whose = {"trial": line.trial_id, "name": line.trial_name}
    return json_line(
        {
            **whose,
            "time": line.time,
            "stream": line.stream,
            "text": str(line),
            "role": line.role,
            "index": line.replica_index,
            "attempt": line.attempt,
        }
    )
