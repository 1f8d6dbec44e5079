"""The base classes of `wl.Trial`, `wl.Experiment`, `wl.Model` and the other resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from windlass.client.arguments.filters import filter_query
from windlass.client.arguments.scopes import id_or_name_path
from windlass.client.connection.pages import Listing, Page, walk
from windlass.client.connection.transport import Transport, request_path
from windlass.model.text.times import to_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import Self, Unpack

    from windlass.client.arguments.filters import Filters


class Record(Protocol):
    """The fields that all resources' records have."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def created(self) -> float: ...


class ArchivableRecord(Record, Protocol):
    """The record of a resource that can be archived."""

    @property
    def archived(self) -> bool: ...


RecordT = TypeVar("RecordT", bound=Record)
ResourceT = TypeVar("ResourceT", bound="Resource[Any]")
ArchivableT = TypeVar("ArchivableT", bound=ArchivableRecord)


class Resource(Generic[RecordT]):
    """An object on the server, such as a trial. `record` is its state as last fetched."""

    _collection: ClassVar[str]  # the first segment of the URL path
    _record_type: ClassVar[Any]
    _change_type: ClassVar[Any]  # the body of a PATCH request

    def __init__(self, transport: Transport, record: RecordT) -> None:
        self._transport = transport
        self._record = record

    @property
    def id(self) -> int:
        """The resource's id, a number that is unique among resources of the same kind."""
        return self._record.id

    @property
    def name(self) -> str:
        """The name of the resource."""
        return self._record.name

    @property
    def created(self) -> datetime:
        """The time of creation, in UTC."""
        return to_datetime(self._record.created)

    @property
    def record(self) -> RecordT:
        """The resource's whole record, as a struct."""
        return self._record

    def refresh(self) -> Self:
        """Fetch the current record from the server."""
        return self._replace(self._transport.ask("GET", self._path, self._record_type))

    def delete(self) -> None:
        """Delete the resource permanently. Deleting it again is not an error."""
        self._transport.fetch("DELETE", self._path)

    def _change(self, **changes: Any) -> Self:
        body = self._change_type(**changes)
        return self._replace(self._transport.ask("PATCH", self._path, self._record_type, body=body))

    def _replace(self, record: RecordT) -> Self:
        """Replace this object's record with a newer one from the server, and return the object."""
        self._record = record
        return self

    @property
    def _path(self) -> str:
        return request_path(self._collection, self.id)

    def __eq__(self, other: object) -> bool:
        """Return whether both objects represent the same resource on the same server.

        ```python
        trial = train.submit(0.1)
        assert wl.get_trial(trial.id) == trial
        ```
        """
        if not isinstance(other, Resource):
            return NotImplemented
        return self is other or (self.id != 0 and self._identity == other._identity)

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[str, str]:
        return self._transport.server, self._path

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the record without the connection.

        The unpickled copy uses the default server of the process that unpickles it.
        """
        return _revive, (type(self), self._record)


class Archivable(Resource[ArchivableT]):
    """A resource that can be archived, which hides it from lists without deleting any data."""

    @property
    def archived(self) -> bool:
        """Whether the resource is archived. Lists omit archived resources by default."""
        return self._record.archived

    def archive(self) -> Self:
        """Archive the resource, so that lists omit it and its contents by default.

        No data is deleted.
        """
        return self._change(archived=True)

    def unarchive(self) -> Self:
        """Undo `archive`, so that lists include the resource again."""
        return self._change(archived=False)


def get_resource(
    transport: Transport, resource_type: type[ResourceT], id_or_name: int | str, noun: str
) -> ResourceT:
    """Fetch a resource by its id or name."""
    path = request_path(resource_type._collection, *id_or_name_path(id_or_name, noun))
    return resource_type(transport, transport.ask("GET", path, resource_type._record_type))


def list_resources(
    transport: Transport,
    resource_type: type[ResourceT],
    page: type[Page[Any]],
    *,
    sort_by: str = "id",
    limit: int | None = None,
    **filters: Unpack[Filters],
) -> Listing[ResourceT]:
    """List the resources that match the filters, fetching pages on demand."""
    query = {**filter_query(**filters), "sort": sort_by}
    records = walk(transport, f"/{resource_type._collection}", page, query, limit)
    return records.map(lambda record: resource_type(transport, record))


def _revive(kind: type[Resource[Any]], record: Any) -> Resource[Any]:
    from windlass.client.client import default_client

    return kind(default_client().transport, record)
