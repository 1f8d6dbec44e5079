"""Finds the trials that a user calls `last`, `last~1` and so on."""

from __future__ import annotations

import re

_LAST = re.compile(r"last(?:~(\d{1,6}))?", re.ASCII)


def steps_back(text: str) -> int | None:
    """Return how many trials `last` or `last~N` goes back, or None if the text is another word.

    >>> steps_back("last"), steps_back("last~2"), steps_back("7")
    (0, 2, None)
    """
    match = _LAST.fullmatch(text)
    return int(match[1] or 0) if match else None


def find_last(steps: int) -> int:
    """Return the id of the trial that is `steps` before the newest trial in `windlass ls`."""
    from windlass.client.client import default_client
    from windlass.model.errors import NotFound

    newest = default_client().list_trials(sort_by="-id", limit=steps + 1)
    ids = [trial.id for trial in newest]
    if len(ids) <= steps:
        number = "no trial" if not ids else "one trial" if len(ids) == 1 else f"{len(ids)} trials"
        what = "last" if steps == 0 else f"last~{steps}"
        there = "is" if len(ids) < 2 else "are"
        raise NotFound(f"{what!r} names no trial: there {there} {number}.", hint="See: windlass ls")
    return ids[-1]


def find_last_if_running(steps: int) -> int | None:
    """Do the same as `find_last` for shell completion, which starts no server."""
    from windlass.cli.options.server_probe import recent_trials

    trials = recent_trials()
    return trials[steps].id if len(trials) > steps else None
