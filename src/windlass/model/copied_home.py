"""The message for a Windlass home that is a copy of another home."""

from __future__ import annotations

ADOPT = "windlass server adopt"


def describe_copy(path: str, original: str) -> tuple[str, str]:
    """Return a message that the home is a copy, and a hint on how to use it.

    >>> describe_copy("/backup", "/home/ada/.windlass")[0]
    '/backup is a copy of the home /home/ada/.windlass. Its records can be read. ...'
    """
    message = (
        f"{path} is a copy of the home {original}. Its records can be read. Its server changes "
        "nothing and starts, stops and continues no trial, because the trials belong to the "
        "original."
    )
    return message, (
        f"To make it a home of its own, which starts its queued trials: {ADOPT}\n"
        "If the original still exists, these trials then run in both."
    )
