"""What the things that people keep have in common: a record, a server, changes that refresh it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from windlass.client.transport import Transport, path_of

if TYPE_CHECKING:
    import msgspec
    from typing_extensions import Self

R = TypeVar("R", bound="msgspec.Struct")


class Resource(Generic[R]):
    """Something of the server's that has an id: its record as it was when last asked for."""

    _nouns: ClassVar[str]  # where it is among what can be asked for
    _kind: ClassVar[Any]  # of its record
    _changes: ClassVar[Any]  # the struct that asks for a change

    def __init__(self, transport: Transport, record: R) -> None:
        self._transport = transport
        self._record = record

    @property
    def id(self) -> int:
        """The number by which it can be asked for."""
        identity: int = self._told.id
        return identity

    @property
    def name(self) -> str:
        """What it is called."""
        name: str = self._told.name
        return name

    @property
    def created(self) -> float:
        """When it was created, in seconds since the epoch."""
        created: float = self._told.created
        return created

    @property
    def record(self) -> R:
        """Everything that is known of it, as one plain struct."""
        return self._record

    def refresh(self) -> Self:
        """Ask the server how it stands now."""
        self._record = self._transport.ask("GET", self._path, self._kind)
        return self

    def delete(self) -> None:
        """Delete it for good; that it is gone already is no matter."""
        self._transport.fetch("DELETE", self._path)

    def _change(self, **changes: Any) -> Self:
        body = self._changes(**changes)
        self._record = self._transport.ask("PATCH", self._path, self._kind, body=body)
        return self

    @property
    def _path(self) -> str:
        return path_of(self._nouns, self.id)

    @property
    def _told(self) -> Any:
        return self._record

    def __reduce__(self) -> tuple[Any, ...]:
        """It can be sent along: it arrives as it was, asking the server there."""
        return _revive, (type(self), self._record)


class Archivable(Resource[R]):
    """What can be left out of lists without being deleted."""

    @property
    def archived(self) -> bool:
        """Whether it is left out of lists."""
        archived: bool = self._told.archived
        return archived

    def archive(self) -> Self:
        """Leave it, and what belongs to it, out of lists from now on. Nothing is lost."""
        return self._change(archived=True)

    def unarchive(self) -> Self:
        """Have it in lists again."""
        return self._change(archived=False)


def _revive(kind: type[Resource[Any]], record: Any) -> Resource[Any]:
    from windlass.client.session import default_client

    return kind(default_client().transport, record)
