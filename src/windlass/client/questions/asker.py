"""What every question needs: the connection to the server, and who is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.model.errors import InvalidArgument, shown

if TYPE_CHECKING:
    from windlass.client.transport import Transport


class Asker:
    """Something that asks a server."""

    transport: Transport


def which(id_or_name: Any, noun: str) -> tuple[object, ...]:
    """The end of the path that leads to what has an id, or a name.

    >>> which(3, "model"), which("net", "model")
    ((3,), ('named', 'net'))
    """
    if isinstance(id_or_name, str) and id_or_name:
        return "named", id_or_name
    if isinstance(id_or_name, int) and not isinstance(id_or_name, bool):
        return (id_or_name,)
    raise InvalidArgument(
        f"{shown(id_or_name)} is neither a name nor an id of a {noun}.",
        hint=f"See what there is: windlass {noun} ls",
    )
