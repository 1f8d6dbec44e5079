"""Wraps long lines between words, but never inside commands, so that users can copy them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.model.text.display import width_of

# Matches a command in advice, at the start of the text or after a colon or comma.
_COMMAND = r"(?:(?<=[:,] )|^)(?:windlass|kubectl|chmod|du|export|pip|unset) .*?(?=\.?$|\. [A-Z])\.?"
_CALL = r"wl\.\w+\([^)]*\)\S*"
_PART = re.compile(rf"{_COMMAND}|{_CALL}|\S+")


def wrap(text: str, width: int) -> Iterator[str]:
    """Wrap text to a width. A command that does not fit stays whole on a longer line.

    The terminal breaks the longer line without inserting characters, so the command can still be
    copied.

    >>> for line in wrap("Somebody who may can grant it: kubectl apply --filename role.yaml", 36):
    ...     print(line)
    Somebody who may can grant it:
    kubectl apply --filename role.yaml
    """
    line = ""
    for part in _PART.findall(text):
        longer = f"{line} {part}" if line else part
        if line and width_of(longer) > width:
            yield line
            longer = part
        line = longer
    yield line
