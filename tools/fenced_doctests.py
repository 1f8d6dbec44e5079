"""A Griffe extension that puts the doctests of docstrings into fences, as Markdown needs them."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?:^|(?<=\n\n))(>>> .*?)(?=\n\n|\Z)", re.DOTALL)


class FencedDoctests(griffe.Extension):
    """Fences each paragraph that starts with `>>>`."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object right after it was read."""
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(r"```pycon\n\1\n```", obj.docstring.value)
