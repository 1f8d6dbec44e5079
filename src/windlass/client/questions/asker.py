"""What every question needs: the connection to the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.client.transport import Transport


class Asker:
    """Something that asks a server."""

    transport: Transport
