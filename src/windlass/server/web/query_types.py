"""Parameter types that the queries of lists share."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

PAGE_LIMIT = 500
Text = Annotated[str, Meta(max_length=1000)]
MaybeText = Text | None
Limit = Annotated[int, Meta(ge=1, le=PAGE_LIMIT)]
Cursor = Annotated[str, Meta(max_length=8000)]  # a cursor may contain a name or a parameter value
