"""Checkpoints: taken in as trials save them, told of, changed, deleted.

A trial's process puts the files into the blob store by itself and writes a record file, whole,
as the last thing (`worker/checkpoints.py`). What is here follows from those files: each is taken
in once, when a nudge tells of it, at the end of its attempt, or at the server's start.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import stat
import threading
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import msgspec

from windlass.model.errors import InvalidArgument
from windlass.model.job import Digest, Keep
from windlass.model.learning import learned
from windlass.model.metrics import near_metric
from windlass.model.records import CheckpointRecord, is_own_metric
from windlass.model.wire import ChangeCheckpoint, CheckpointPage
from windlass.runtimes import layout
from windlass.server.blobs import BlobStore
from windlass.server.checkpoint_metrics import CheckpointMetrics, values_at, with_metrics
from windlass.server.checkpoint_rows import (
    INSERT,
    MOST_METADATA,
    find,
    is_used,
    known_numbers,
    mark_deleted,
    of_trial,
    record_of,
    uses_of,
    with_uses,
)
from windlass.server.checkpoint_upgrade import old_ones, upgrade
from windlass.server.database import Connection, Database
from windlass.server.paging import Conditions, Order, cut, decode_cursor, downwards, encode_cursor
from windlass.server.retention import to_delete
from windlass.server.unjudged import warn
from windlass.server.where import ASPECTS, METRIC, parse_name
from windlass.worker.checkpoints import clear
from windlass.worker.files import remove_if_there
from windlass.worker.restore import RestoreError, read_tree

_LARGEST_METADATA = 64 << 10
_LARGEST_RECORD = 1 << 20
_SORTS = {name: f"checkpoints.{name}" for name in ("id", "created", "number", "size")} | {
    "step": "coalesce(checkpoints.step, -1)"
}
_log = logging.getLogger("windlass")

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A record file as it must be to be believed: a trial's own process wrote it."""

    uid: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    is_folder: bool
    manifest: Digest
    time: float
    step: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    role: Annotated[str, msgspec.Meta(max_length=100)] = ""
    index: _Count = 0
    attempt: _Count = 1
    shards: _Count = 0
    metadata: dict[str, Any] = {}


class CheckpointStore:
    """Every checkpoint there is."""

    def __init__(
        self,
        home: Path,
        database: Database,
        blobs: BlobStore,
        keeping: Callable[[int], Keep | None],
    ) -> None:
        """`keeping` says which checkpoints of a trial are to stay, if not all."""
        self._home = home
        self._db = database
        self._blobs = blobs
        self._keeping = keeping
        self._metrics = CheckpointMetrics(home)
        # What is deleted meanwhile must not be taken in again from a file that was read before.
        self._lock = threading.Lock()

    # -- as trials save them ----------------------------------------------------------

    def take_in(self, trial_id: int) -> None:
        """Learn of what a trial has saved, and let go of what it is not to keep."""
        folder = layout.checkpoints_dir(self._home, trial_id)
        if not os.path.isdir(folder):
            return
        with self._lock:
            known = self._db.read(lambda each: known_numbers(each, trial_id))
            new = list(self._new_rows(folder, trial_id, known))
            if not new:
                return
            self._db.write(lambda connection: connection.run_many(INSERT, new))
            self._retain(trial_id)

    def tidy(self, trial_id: int) -> None:
        """Remove what only the processes of a trial need, of which none is left."""
        folder = layout.checkpoints_dir(self._home, trial_id)
        if os.path.isdir(folder):
            clear(str(folder), str(self._blobs.root))
            upgrade(folder, self._blobs)
            self.take_in(trial_id)
            with self._lock:  # no more will be reported: what is known now is what counts
                self._retain(trial_id, is_over=True)

    def take_in_old_ones(self, unfinished: Collection[int]) -> None:
        """Take in what earlier versions left, of trials that have ended; once for a home."""
        for trial_id in old_ones(self._home / "trials", unfinished):
            self.tidy(trial_id)

    def finish_deletions(self) -> None:
        """Remove what a killed server had begun to delete."""
        with self._lock:
            rows = self._db.read(
                lambda each: each.rows("SELECT * FROM checkpoints WHERE is_deleted")
            )
            self._erase([record_of(row) for row in rows])

    def _new_rows(
        self, folder: Path, trial_id: int, known: Container[int]
    ) -> Iterator[dict[str, Any]]:
        for number, path in record_files(folder):
            saved = None if number in known else read_saved(path)
            row = None if saved is None else self._row_of(saved, trial_id, number)
            if row is not None:
                yield row

    def _row_of(self, saved: Saved, trial_id: int, number: int) -> dict[str, Any] | None:
        try:
            tree = read_tree(self._blobs.get(saved.manifest))
            metadata = msgspec.json.encode(saved.metadata)
        except (OSError, RestoreError, ValueError) as error:
            _log.warning("checkpoint %s of trial %s: %s", number, trial_id, error)
            return None
        files = [each for entries in tree.folders.values() for each in entries]
        given = {name: getattr(saved, name) for name in Saved.__struct_fields__ if name != "time"}
        return {
            **given,
            "name": saved.name.encode("utf-8", "backslashreplace").decode(),
            "created": saved.time if math.isfinite(saved.time) else 0.0,
            "metadata": metadata if saved.metadata else None,
            "trial_id": trial_id,
            "number": number,
            "files": len(files),
            "size": min(sum(each.size for each in files), 2**63 - 1),
        }

    def _retain(self, trial_id: int, *, is_over: bool = False) -> None:
        keep = self._keeping(trial_id)
        if keep is None:
            return
        there = self._db.read(lambda each: of_trial(each, trial_id))
        if len(there) <= keep.last:
            return
        values = self._values_of(keep.metric, trial_id, there) if keep.best else {}
        if keep.best and not values:
            self._db.write(lambda each: warn(each, trial_id, keep, there, is_over=is_over))
            return
        ids = [each.id for each in there]
        used = self._db.read(lambda each: {row["checkpoint_id"] for row in uses_of(each, ids)})
        gone = to_delete(keep, there, values, used)
        self._erase(self._db.write(lambda each: mark_deleted(each, gone)))

    def _erase(self, gone: Iterable[CheckpointRecord]) -> None:
        """Remove the record files of those that are marked, then their rows.

        In this order, a server that is killed in between finds what is left to do.
        """
        gone = list(gone)
        for each in gone:
            path = layout.checkpoints_dir(self._home, each.trial_id) / f"{each.number}.json"
            saved = read_saved(path)
            if saved is not None and saved.uid == each.uid:
                remove_if_there(str(path))
        if gone:
            rows = [{"id": each.id} for each in gone]
            self._db.write(
                lambda each: each.run_many(
                    "DELETE FROM checkpoints WHERE id = :id AND is_deleted", rows
                )
            )

    # -- as they are asked for --------------------------------------------------------

    async def record(self, key: str) -> CheckpointRecord:
        """The checkpoint with that id or uid."""
        return await self._whole(await self._db.aread(lambda each: find(each, key)))

    async def page(
        self, *, trial_id: int | None, sort: str, cursor: str | None, limit: int
    ) -> CheckpointPage:
        """Checkpoints that match, sorted, a page at a time."""
        found = await self._found(trial_id=trial_id, sort=sort, cursor=cursor, limit=limit)
        records = await self._db.aread(lambda each: with_uses(each, found.items))
        items = await asyncio.to_thread(self._metrics.added_to, records)
        return msgspec.structs.replace(found, items=tuple(items))

    async def _whole(self, record: CheckpointRecord) -> CheckpointRecord:
        """A checkpoint with what needs it, and what its trial reported."""
        records = await self._db.aread(lambda each: with_uses(each, [record]))
        [whole] = await asyncio.to_thread(self._metrics.added_to, records)
        return whole

    async def _found(
        self, *, trial_id: int | None, sort: str, cursor: str | None, limit: int
    ) -> CheckpointPage:
        if sort.removeprefix("-") not in _SORTS:
            return await self._db.aread(
                lambda connection: self._by_metric(connection, trial_id, sort, cursor, limit)
            )
        order, asked = Order(sort, _SORTS), Conditions()
        asked.require("NOT is_deleted")
        asked.equal("trial_id", trial_id)
        order.begin_after(cursor, asked)
        query = f"SELECT *, {order.columns} FROM checkpoints{asked.text}{order.tail(limit)}"

        def run(connection: Connection) -> CheckpointPage:
            rows, after = cut(connection.rows(query, asked.parameters), limit)
            return CheckpointPage(items=tuple(map(record_of, rows)), next=after)

        return await self._db.aread(run)

    def _by_metric(
        self,
        connection: Connection,
        trial_id: int | None,
        sort: str,
        cursor: str | None,
        limit: int,
    ) -> CheckpointPage:
        """Those of a trial by what it reported; those of which nothing is known come last."""
        metric = _metric_of(sort)
        if trial_id is None:
            raise InvalidArgument(
                f"Checkpoints of all trials cannot be sorted by {metric!r}.",
                hint=f"{downwards(sort)}Sort by one of: {', '.join(sorted(_SORTS))}; "
                "or ask for those of a trial.",
            )
        there = of_trial(connection, trial_id)
        values = self._values_of(metric, trial_id, there)
        if there and not values:
            _check_metric(connection, trial_id, sort.removeprefix("-"))
        sign = -1.0 if sort.startswith("-") else 1.0

        def key(each: CheckpointRecord) -> list[Any]:
            value = sign * values.get(each.id, math.nan)
            if math.isnan(value):
                return [1, 0.0, -each.id]
            return [0, max(min(value, 1.7e308), -1.7e308), -each.id]  # JSON has no infinities

        ordered = sorted(there, key=key)
        if cursor is not None:
            begin = decode_cursor(cursor, 3)
            try:
                ordered = [each for each in ordered if key(each) > begin]
            except TypeError:
                decode_cursor("", 3)
        page = [
            with_metrics(each, {metric: values[each.id]}) if each.id in values else each
            for each in ordered[:limit]
        ]
        after = encode_cursor(key(page[-1])) if len(ordered) > limit else None
        return CheckpointPage(items=tuple(page), next=after)

    def _values_of(
        self, metric: str, trial_id: int, checkpoints: Sequence[CheckpointRecord]
    ) -> dict[int, float]:
        found = values_at(self._home, trial_id, checkpoints, metric.__eq__)
        return {key: values[metric] for key, values in found.items()}

    async def change(self, key: str, change: ChangeCheckpoint) -> CheckpointRecord:
        """Give a checkpoint other metadata; what is not named stays."""

        def run(connection: Connection) -> CheckpointRecord:
            record = find(connection, key)
            metadata = {**record.metadata, **change.put_metadata}
            for name in change.remove_metadata:
                metadata.pop(name, None)
            encoded = msgspec.json.encode(metadata)
            if len(metadata) > MOST_METADATA or len(encoded) > _LARGEST_METADATA:
                raise InvalidArgument(
                    f"These would be {len(metadata)} entries of metadata, {len(encoded)} bytes;"
                    f" there can be {MOST_METADATA}, and {_LARGEST_METADATA} bytes.",
                    hint="Save what is large as a file in the checkpoint.",
                )
            connection.run(
                "UPDATE checkpoints SET metadata = :metadata WHERE id = :id",
                {"id": record.id, "metadata": encoded},
            )
            return msgspec.structs.replace(record, metadata=metadata)

        return await self._whole(await self._db.awrite(run))

    def delete(self, key: str) -> CheckpointRecord:
        """Have no such checkpoint any more; one that something needs stays."""

        def run(connection: Connection) -> CheckpointRecord:
            record = find(connection, key)
            if not mark_deleted(connection, [record]):
                raise is_used([record], uses_of(connection, [record.id]))
            return record

        with self._lock:
            gone = self._db.write(run)
            self._erase([gone])
        return gone


class CheckpointReader:
    """A thread that takes in what trials saved when it is told of them."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(1, "windlass-checkpoints")

    def look(self, trial_id: int) -> None:
        """Look at a trial; from any thread."""
        self._pool.submit(self._look, trial_id)

    def catch_up(self, trial_ids: Iterable[int]) -> None:
        """Do what was not done while no server ran."""
        self._store.finish_deletions()
        unfinished = list(trial_ids)
        for trial_id in unfinished:
            self._store.take_in(trial_id)
        self._store.take_in_old_ones(unfinished)

    def close(self) -> None:
        """End the thread; what was not taken in is at the next start."""
        self._pool.shutdown(cancel_futures=True)

    def _look(self, trial_id: int) -> None:
        try:
            self._store.take_in(trial_id)
        except Exception:  # noqa: BLE001 -- it is looked at again at the end of the attempt
            _log.exception("the checkpoints of trial %s cannot be taken in", trial_id)


def record_files(folder: Path) -> list[tuple[int, Path]]:
    """The record files of a trial's checkpoints with their numbers, oldest first."""
    found = []
    for name in os.listdir(folder):
        number = name.removesuffix(".json")
        if number != name and number.isascii() and number.isdecimal() and 0 < len(number) < 10:
            found.append((int(number), folder / name))
    return sorted(each for each in found if each[0] > 0)


def read_saved(path: Path) -> Saved | None:
    """What a record file says; none if it is none, or not as it must be."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        # Not msgspec's own reader, which refuses the odd names that files may have.
        return msgspec.convert(json.loads(os.read(fd, _LARGEST_RECORD)), learned(Saved))
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        _log.warning("%s is no record of a checkpoint: %s", path, error)
        return None
    finally:
        os.close(fd)


def _metric_of(sort: str) -> str:
    """The metric that is meant, as lists of trials name them: `metrics.loss`, or `loss`."""
    text = sort.removeprefix("-")
    named = parse_name(text)
    is_it = named is not None and (named.kind, named.aspect) == (METRIC, ASPECTS[0])
    return named.name if named is not None and is_it else text


def _check_metric(connection: Connection, trial_id: int, sort: str) -> None:
    """Refuse to sort by what a trial never reported; what it said too late is no matter."""
    metric = _metric_of(sort)
    query = "SELECT name FROM summaries WHERE trial_id = :trial_id ORDER BY name"
    names = [row["name"] for row in connection.rows(query, {"trial_id": trial_id})]
    if metric in names or (sort.startswith(METRIC) and not names):
        return
    near = near_metric(metric, [*names, *_SORTS])
    own = [each for each in names if is_own_metric(each)]
    more = ", …" if len(own) > 20 else ""
    known = f"It reported: {', '.join(own[:20])}{more}." if own else "It reported no metrics."
    raise InvalidArgument(
        f"Cannot sort by {metric[:80]!r}: trial {trial_id} reported no such metric.",
        hint=(downwards(sort) or (f"Did you mean {near!r}? " if near else ""))
        + f"{known} Besides: {', '.join(sorted(_SORTS))}.",
    )
