"""Text about a home that is a copy of another one."""

from __future__ import annotations

ADOPT = "windlass server adopt"


def describe_copy(path: str, original: str) -> tuple[str, str]:
    """Return what a copied home does, and the remedy.

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
