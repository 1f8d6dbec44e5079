"""The checkpoint store, which imports, lists, changes and deletes checkpoints.

A trial's process itself writes a checkpoint's files to the blob store and then atomically writes a
record file (`worker/checkpoints/records.py`). This store imports each record file once, as a
database row. The import takes place after a notification from the process, at the end of the
attempt, or when the server starts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import msgspec

from windlass.model.errors import InvalidArgument
from windlass.model.job import Digest, Keep
from windlass.model.metrics import near_metric
from windlass.model.records import CheckpointRecord, is_own_metric
from windlass.model.requests import ChangeCheckpoint, CheckpointPage
from windlass.model.thread_safe_types import learned
from windlass.runtimes import paths
from windlass.server.db.base import Connection, Database
from windlass.server.db.paging import (
    Conditions,
    Order,
    decode_numbers,
    direction_hint,
    encode_cursor,
    split_page,
)
from windlass.server.db.where_parser import ASPECTS, METRIC, parse_name
from windlass.server.stores.blobs.base import BlobStore
from windlass.server.stores.checkpoints.metric_values import (
    CheckpointMetrics,
    values_at,
    with_metrics,
)
from windlass.server.stores.checkpoints.retention import to_delete
from windlass.server.stores.checkpoints.retention_warning import warn
from windlass.server.stores.checkpoints.rows import (
    INSERT,
    MOST_METADATA,
    find,
    find_uses,
    is_used,
    list_numbers,
    mark_deleted,
    of_trial,
    to_record,
    with_uses,
)
from windlass.server.stores.metrics.base import MetricStore
from windlass.worker.blobs.restore_tree import RestoreError, read_tree
from windlass.worker.checkpoints.records import clear
from windlass.worker.common.atomic_files import remove_if_there
from windlass.worker.common.file_reads import is_folder, read_file

_LARGEST_METADATA = 64 << 10
_LARGEST_RECORD = 1 << 20
_SORTS = {name: f"checkpoints.{name}" for name in ("id", "created", "number", "size")} | {
    "step": "coalesce(checkpoints.step, -1)"
}
_log = logging.getLogger("windlass")

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class SavedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint's record file. It is validated, because a trial's own process wrote it."""

    uid: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    name: Annotated[str, msgspec.Meta(max_length=4096, pattern=r"^[^/\x00]+\Z")]
    is_folder: bool
    manifest: Digest
    time: float
    step: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    role: Annotated[str, msgspec.Meta(max_length=100)] = ""
    index: _Count = 0
    attempt: _Count = 1
    shards: _Count = 0
    metadata: dict[str, Any] = {}
    # the highest step that the program had reported, which only the program itself uses
    reported_step: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None


class CheckpointStore:
    """Imports, lists, changes and deletes the checkpoints of all trials."""

    def __init__(
        self,
        home: Path,
        database: Database,
        blobs: BlobStore,
        metrics: MetricStore,
        keeping: Callable[[int], Keep | None],
    ) -> None:
        """Create the store.

        `keeping` returns a trial's retention rule, or None if the trial has none.
        """
        self._home = home
        self._db = database
        self._blobs = blobs
        self._keeping = keeping
        self._points = metrics
        self._metrics = CheckpointMetrics(metrics)
        # The lock prevents an import from restoring a checkpoint that is deleted after its file was
        # read.
        self._lock = threading.Lock()

    # -- imports and retention --------------------------------------------------------

    def take_in(self, trial_id: int) -> None:
        """Import a trial's new checkpoints and apply its retention rule."""
        folder = paths.checkpoints_dir(self._home, trial_id)
        if not is_folder(folder):
            return
        with self._lock:
            stored_numbers = self._db.read(lambda connection: list_numbers(connection, trial_id))
            new = list(self._new_rows(folder, trial_id, stored_numbers))
            if not new:
                return
            self._db.write(lambda connection: connection.run_many(INSERT, new))
            self._retain(trial_id)

    def tidy(self, trial_id: int) -> None:
        """Delete files that only a trial's processes need. All of the processes must have ended."""
        folder = paths.checkpoints_dir(self._home, trial_id)
        if is_folder(folder):
            clear(str(folder))
            self._blobs.discard_unfinished(trial_id)
            self.take_in(trial_id)
            with self._lock:  # all metric values are known now
                self._retain(trial_id, is_over=True)

    def finish_deletions(self) -> None:
        """Finish the deletions that a killed server had started."""
        with self._lock:
            rows = self._db.read(
                lambda connection: connection.rows("SELECT * FROM checkpoints WHERE is_deleted")
            )
            self._erase([to_record(row) for row in rows])

    def _new_rows(
        self, folder: Path, trial_id: int, stored_numbers: Container[int]
    ) -> Iterator[dict[str, Any]]:
        for number, path in record_files(folder):
            saved = None if number in stored_numbers else read_saved(path)
            row = None if saved is None else self._make_row(saved, trial_id, number)
            if row is not None:
                yield row

    def _make_row(self, saved: SavedRecord, trial_id: int, number: int) -> dict[str, Any] | None:
        try:
            tree = read_tree(self._blobs.get(saved.manifest))
            metadata = msgspec.json.encode(saved.metadata)
        except (FileNotFoundError, RestoreError, ValueError) as error:
            _log.warning("checkpoint %s of trial %s: %s", number, trial_id, error)
            return None
        files = [file for entries in tree.folders.values() for file in entries]
        columns = {
            name: getattr(saved, name) for name in SavedRecord.__struct_fields__ if name != "time"
        }
        return {
            **columns,
            "name": saved.name.encode("utf-8", "backslashreplace").decode(),
            "created": saved.time if math.isfinite(saved.time) else 0.0,
            "metadata": metadata if saved.metadata else None,
            "trial_id": trial_id,
            "number": number,
            "files": len(files),
            "size": min(sum(file.size for file in files), 2**63 - 1),
        }

    def _retain(self, trial_id: int, *, is_over: bool = False) -> None:
        keep = self._keeping(trial_id)
        if keep is None:
            return
        there = self._db.read(lambda connection: of_trial(connection, trial_id))
        if len(there) <= keep.last:
            return
        values = self._read_values(keep.metric, trial_id, there) if keep.best else {}
        if keep.best and not values:
            self._db.write(
                lambda connection: warn(connection, trial_id, keep, there, is_over=is_over)
            )
            return
        ids = [record.id for record in there]
        used = self._db.read(
            lambda connection: {row["checkpoint_id"] for row in find_uses(connection, ids)}
        )
        gone = to_delete(keep, there, values, used)
        self._erase(self._db.write(lambda connection: mark_deleted(connection, gone)))

    def _erase(self, gone: Iterable[CheckpointRecord]) -> None:
        """Delete the record files and then the rows of checkpoints that are marked as deleted.

        Because of this order, the next server can finish an interrupted deletion.
        """
        gone = list(gone)
        for record in gone:
            path = paths.checkpoints_dir(self._home, record.trial_id) / f"{record.number}.json"
            saved = read_saved(path)
            if saved is not None and saved.uid == record.uid:
                remove_if_there(str(path))
        if gone:
            rows = [{"id": record.id} for record in gone]
            self._db.write(
                lambda connection: connection.run_many(
                    "DELETE FROM checkpoints WHERE id = :id AND is_deleted", rows
                )
            )

    # -- requests from clients --------------------------------------------------------

    async def record(self, key: str) -> CheckpointRecord:
        """Return the checkpoint that has this id or uid."""
        return await self._whole(await self._db.aread(lambda connection: find(connection, key)))

    async def page(
        self, *, trial_id: int | None, sort: str, cursor: str | None, limit: int
    ) -> CheckpointPage:
        """Return a page of the checkpoints of one trial, or of all trials if `trial_id` is None."""
        page = await self._find_page(trial_id=trial_id, sort=sort, cursor=cursor, limit=limit)
        records = await self._db.aread(lambda connection: with_uses(connection, page.items))
        items = await asyncio.to_thread(self._metrics.added_to, records)
        return msgspec.structs.replace(page, items=tuple(items))

    async def _whole(self, record: CheckpointRecord) -> CheckpointRecord:
        """Return a checkpoint's record, after adding the checkpoint's uses and metric values."""
        records = await self._db.aread(lambda connection: with_uses(connection, [record]))
        [whole] = await asyncio.to_thread(self._metrics.added_to, records)
        return whole

    async def _find_page(
        self, *, trial_id: int | None, sort: str, cursor: str | None, limit: int
    ) -> CheckpointPage:
        if sort.removeprefix("-") not in _SORTS:
            return await self._db.aread(
                lambda connection: self._by_metric(connection, trial_id, sort, cursor, limit)
            )
        order, conditions = Order(sort, _SORTS), Conditions()
        conditions.require("NOT is_deleted")
        conditions.equal("trial_id", trial_id)
        order.start_after(cursor, conditions)
        query = f"SELECT *, {order.columns} FROM checkpoints{conditions.text}{order.tail(limit)}"

        def run(connection: Connection) -> CheckpointPage:
            rows, after = split_page(connection.rows(query, conditions.parameters), limit)
            return CheckpointPage(items=tuple(map(to_record, rows)), next=after)

        return await self._db.aread(run)

    def _by_metric(
        self,
        connection: Connection,
        trial_id: int | None,
        sort: str,
        cursor: str | None,
        limit: int,
    ) -> CheckpointPage:
        """Return a page of a trial's checkpoints sorted by a metric.

        Checkpoints that have no value for the metric come last.
        """
        metric = _parse_metric(sort)
        if trial_id is None:
            raise InvalidArgument(
                f"Checkpoints of all trials cannot be sorted by {metric!r}.",
                hint=f"{direction_hint(sort)}Sort by one of: {', '.join(sorted(_SORTS))}; "
                "or list the checkpoints of one trial.",
            )
        there = of_trial(connection, trial_id)
        values = self._read_values(metric, trial_id, there)
        if there and not values:
            _check_metric(connection, trial_id, sort.removeprefix("-"))
        sign = -1.0 if sort.startswith("-") else 1.0

        def key(record: CheckpointRecord) -> list[Any]:
            value = sign * values.get(record.id, math.nan)
            if math.isnan(value):
                return [1, 0.0, -record.id]
            return [0, value, -record.id]

        ordered = sorted(there, key=key)
        if cursor is not None:
            begin = decode_numbers(cursor, 3)
            ordered = [record for record in ordered if key(record) > begin]
        page = [
            with_metrics(record, {metric: values[record.id]}) if record.id in values else record
            for record in ordered[:limit]
        ]
        after = encode_cursor(key(page[-1])) if len(ordered) > limit else None
        return CheckpointPage(items=tuple(page), next=after)

    def _read_values(
        self, metric: str, trial_id: int, checkpoints: Sequence[CheckpointRecord]
    ) -> dict[int, float]:
        values_by_id = values_at(self._points, trial_id, checkpoints, metric.__eq__)
        return {key: values[metric] for key, values in values_by_id.items()}

    async def change(self, key: str, change: ChangeCheckpoint) -> CheckpointRecord:
        """Add, change or remove metadata of a checkpoint."""

        def run(connection: Connection) -> CheckpointRecord:
            record = find(connection, key)
            metadata = {**record.metadata, **change.put_metadata}
            for name in change.remove_metadata:
                metadata.pop(name, None)
            encoded = msgspec.json.encode(metadata)
            if len(metadata) > MOST_METADATA or len(encoded) > _LARGEST_METADATA:
                raise InvalidArgument(
                    f"This would make {len(metadata)} entries of metadata, {len(encoded)} bytes;"
                    f" the limits are {MOST_METADATA}, and {_LARGEST_METADATA} bytes.",
                    hint="Save large values as a file in the checkpoint.",
                )
            connection.run(
                "UPDATE checkpoints SET metadata = :metadata WHERE id = :id",
                {"id": record.id, "metadata": encoded},
            )
            return msgspec.structs.replace(record, metadata=metadata)

        return await self._whole(await self._db.awrite(run))

    def delete(self, key: str) -> CheckpointRecord:
        """Delete a checkpoint. Raise Conflict if it is in use."""

        def run(connection: Connection) -> CheckpointRecord:
            record = find(connection, key)
            if not mark_deleted(connection, [record]):
                raise is_used([record], find_uses(connection, [record.id]))
            return record

        with self._lock:
            gone = self._db.write(run)
            self._erase([gone])
        return gone


class CheckpointReader:
    """A thread that imports new checkpoints when a trial's process sends a notification."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(1, "windlass-checkpoints")

    def read_soon(self, trial_id: int) -> None:
        """Import a trial's new checkpoints soon. Thread-safe."""
        self._pool.submit(self._read_trial, trial_id)

    def catch_up(self, trial_ids: Iterable[int]) -> None:
        """Import the checkpoints that trials saved while no server was running."""
        self._store.finish_deletions()
        for trial_id in trial_ids:
            self._store.take_in(trial_id)

    def close(self) -> None:
        """End the thread that imports checkpoints. The next server imports the remaining ones."""
        self._pool.shutdown(cancel_futures=True)

    def _read_trial(self, trial_id: int) -> None:
        try:
            self._store.take_in(trial_id)
        except Exception:  # noqa: BLE001 -- the import is repeated at the end of the attempt
            _log.exception("the checkpoints of trial %s cannot be stored", trial_id)


def record_files(folder: Path) -> list[tuple[int, Path]]:
    """Return the record files of a trial's checkpoints and their numbers, oldest first."""
    files = []
    for name in os.listdir(folder):
        number = name.removesuffix(".json")
        if number != name and number.isascii() and number.isdecimal() and 0 < len(number) < 10:
            files.append((int(number), folder / name))
    return sorted(file for file in files if file[0] > 0)


def read_saved(path: Path) -> SavedRecord | None:
    """Read a checkpoint's record file. Return None if the file is missing or invalid."""
    data = read_file(str(path), _LARGEST_RECORD)
    if data is None:
        return None
    try:
        # `json` accepts file names that are not valid UTF-8, while the JSON decoder of msgspec
        # refuses them.
        return msgspec.convert(json.loads(data), learned(SavedRecord))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        _log.warning("%s is not the record of a checkpoint: %s", path, error)
        return None


def _parse_metric(sort: str) -> str:
    """Return the metric named by a sort key such as `metrics.loss` or `loss`."""
    text = sort.removeprefix("-")
    named = parse_name(text)
    is_it = named is not None and (named.kind, named.aspect) == (METRIC, ASPECTS[0])
    return named.name if named is not None and is_it else text


def _check_metric(connection: Connection, trial_id: int, sort: str) -> None:
    """Raise InvalidArgument if a sort key names a metric that the trial never reported."""
    metric = _parse_metric(sort)
    query = "SELECT name FROM summaries WHERE trial_id = :trial_id ORDER BY name"
    names = [row["name"] for row in connection.rows(query, {"trial_id": trial_id})]
    if metric in names or (sort.startswith(METRIC) and not names):
        return
    near = near_metric(metric, [*names, *_SORTS])
    own = [name for name in names if is_own_metric(name)]
    more = ", …" if len(own) > 20 else ""
    reported = f"It reported: {', '.join(own[:20])}{more}." if own else "It reported no metrics."
    raise InvalidArgument(
        f"Cannot sort by {metric[:80]!r}: trial {trial_id} reported no such metric.",
        hint=(direction_hint(sort) or (f"Did you mean {near!r}? " if near else ""))
        + f"{reported} Other sort keys: {', '.join(sorted(_SORTS))}.",
    )
