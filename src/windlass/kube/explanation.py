"""What is said of a pod that does not run."""

from __future__ import annotations

import msgspec


class Explanation(msgspec.Struct, frozen=True):
    """Why a pod is not running."""

    reason: str  # one word for programs: Unschedulable, ImageMissing
    sentence: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.remedy}".strip()


def sentence_of(text: str) -> str:
    """What somebody else said, on one line and with a full stop.

    >>> sentence_of("no space left\\n on device")
    'no space left on device.'
    """
    text = " ".join(text.split())
    return text if text.endswith((".", "!", "?")) else f"{text}."
