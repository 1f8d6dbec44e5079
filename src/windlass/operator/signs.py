"""Signs of life: what the parts of an operator show of themselves, and what is wrong with them.

A cluster that cannot be reached is no illness: whoever tries again is alive, and starting the
process anew would help nobody. That is told by `/readyz`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from windlass.kube.watching import LONGEST_SILENCE

FAR_TOO_LONG = 2 * LONGEST_SILENCE
"""Seconds without a sign from a part that always hears something, or gives up and tries again."""


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be seen of one part."""

    part: str
    has_died: bool
    silence: float = 0.0  # seconds


def ailment(signs: Iterable[Sign]) -> str:
    """What is wrong, if something is: the first part that is gone or stuck.

    >>> ailment([Sign(part="the watch of pods", has_died=False, silence=12.0)])
    ''
    >>> ailment([Sign(part="the watch of pods", has_died=False, silence=400.0)])
    'the watch of pods has given no sign for 400 seconds'
    >>> ailment([Sign(part="the loop", has_died=True)])
    'the loop has died'
    """
    for sign in signs:
        if sign.has_died:
            return f"{sign.part} has died"
        if sign.silence > FAR_TOO_LONG:
            return f"{sign.part} has given no sign for {sign.silence:.0f} seconds"
    return ""
