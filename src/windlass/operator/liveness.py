"""The liveness check of the operator's threads.

A thread that retries requests to an unreachable cluster counts as alive, because restarting the
process would not help. `/readyz` reports the unreachable cluster.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from windlass.kube.api.watch import LONGEST_SILENCE

LONGEST_INACTIVITY = 2 * LONGEST_SILENCE
"""Seconds without activity after which a watch counts as stuck. Each retry counts as activity."""


class PartHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of one thread of the operator."""

    part: str
    has_died: bool
    silence: float = 0.0  # seconds


def first_problem(signs: Iterable[PartHealth]) -> str:
    """Return the problem of the first thread that died or is stuck, or "" if there is none.

    >>> first_problem([PartHealth(part="the watch of pods", has_died=False, silence=12.0)])
    ''
    >>> first_problem([PartHealth(part="the watch of pods", has_died=False, silence=400.0)])
    'the watch of pods has been silent for 400 seconds'
    >>> first_problem([PartHealth(part="the loop", has_died=True)])
    'the loop has died'
    """
    for sign in signs:
        if sign.has_died:
            return f"{sign.part} has died"
        if sign.silence > LONGEST_INACTIVITY:
            return f"{sign.part} has been silent for {sign.silence:.0f} seconds"
    return ""
