"""Long lines in a narrow terminal: broken between words, and nowhere in what is to be copied."""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.model.text import width_of

# What our advice has people type: it stands at the beginning, or after a colon or a comma.
_COMMAND = r"(?:(?<=[:,] )|^)(?:windlass|kubectl|chmod|du|export|pip|unset) .*?(?=\.?$|\. [A-Z])\.?"
_CALL = r"wl\.\w+\([^)]*\)\S*"
_PART = re.compile(rf"{_COMMAND}|{_CALL}|\S+")


def wrap(text: str, width: int) -> Iterator[str]:
    """The lines of a text that are no wider, but for one with something that must not be broken.

    A command is left whole, on a line of its own if need be: a terminal that has no room for it
    breaks it without a word, so that it can be copied as it was.

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
