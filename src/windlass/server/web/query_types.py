"""Parameter types that several list queries share."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

PAGE_LIMIT = 500
Text = Annotated[str, Meta(max_length=1000)]
MaybeText = Text | None
Limit = Annotated[int, Meta(ge=1, le=PAGE_LIMIT)]
# Long enough for a cursor that contains a name or a parameter value.
Cursor = Annotated[str, Meta(max_length=8000)]
