"""What the queries of lists have in common."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.server.paging import PAGE_LIMIT

Text = Annotated[str, Meta(max_length=1000)]
MaybeText = Text | None
Limit = Annotated[int, Meta(ge=1, le=PAGE_LIMIT)]
