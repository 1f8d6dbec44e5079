"""Labels in a query: plain text for a single label, or a JSON list."""

from __future__ import annotations

from typing import Annotated

import msgspec

from windlass.model.errors import InvalidArgument
from windlass.model.requests import Labels
from windlass.model.thread_safe_types import learned

LabelText = Annotated[str, msgspec.Meta(max_length=50_000)] | None


def read_labels(text: str | None) -> tuple[str, ...]:
    """Parse the labels in a query.

    A label can contain any character, even a comma, so several labels are written as a JSON list.

    >>> read_labels("baseline"), read_labels('["baseline", "a, b"]'), read_labels(None)
    (('baseline',), ('baseline', 'a, b'), ())
    """
    if not text:
        return ()
    if not text.startswith("["):
        return (text,)
    try:
        return msgspec.json.decode(text, type=learned(Labels))
    except msgspec.MsgspecError as error:
        raise InvalidArgument(
            f"labels is not a list of labels: {error}.",
            hint='Write one label, or ["one", "other"].',
        ) from error
