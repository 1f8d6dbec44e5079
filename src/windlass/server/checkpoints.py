"""Checkpoints: taken in as trials save them, told of, changed, deleted.

A trial's process puts the files into the blob store by itself and writes a record file, whole,
as the last thing (`worker/checkpoints.py`). What is here follows from those files: each is taken
in once, when a nudge tells of it, at the end of its attempt, or at the server's start.
"""

from __future__ import annotations

import logging
import math
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import msgspec

from windlass.model.errors import Conflict, InvalidArgument, NotFound
from windlass.model.job import Digest, Keep
from windlass.model.records import CheckpointRecord
from windlass.model.wire import ChangeCheckpoint, CheckpointPage
from windlass.runtimes import layout
from windlass.server.blobs import BlobStore
from windlass.server.checkpoint_metrics import values_at
from windlass.server.database import Connection, Database, Row
from windlass.server.paging import Conditions, Order, cut, decode_cursor, encode_cursor
from windlass.server.retention import to_delete
from windlass.worker.files import remove_if_there
from windlass.worker.restore import RestoreError, read_tree

MOST_METADATA = 100
_LARGEST_METADATA = 64 << 10
_LARGEST_RECORD = 1 << 20
_UID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_SORTS = {name: f"checkpoints.{name}" for name in ("id", "created", "number", "size")} | {
    "step": "coalesce(checkpoints.step, -1)"
}
_FIELDS = tuple(
    name for name in CheckpointRecord.__struct_fields__ if name not in ("metadata", "metrics")
)
_INSERT = """
INSERT INTO checkpoints (
    uid, trial_id, number, name, is_folder, step, created, role, "index", attempt, shards,
    manifest, files, size, metadata
) SELECT
    :uid, :trial_id, :number, :name, :is_folder, :step, :created, :role, :index, :attempt,
    :shards, :manifest, :files, :size, :metadata
WHERE EXISTS (SELECT 1 FROM trials WHERE id = :trial_id) ON CONFLICT (uid) DO NOTHING
"""
_LIVE = "SELECT * FROM checkpoints WHERE NOT is_deleted"
_log = logging.getLogger("windlass")

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A record file as it must be to be believed: a trial's own process wrote it."""

    uid: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    is_folder: bool
    manifest: Digest
    time: float
    step: Annotated[int, msgspec.Meta(ge=-(2**63), lt=2**63)] | None = None
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
        # What is deleted meanwhile must not be taken in again from a file that was read before.
        self._lock = threading.Lock()

    # -- as trials save them ----------------------------------------------------------

    def take_in(self, trial_id: int) -> None:
        """Learn of what a trial has saved, and let go of what it is not to keep."""
        folder = layout.checkpoints_dir(self._home, trial_id)
        if not os.path.isdir(folder):
            return
        with self._lock:
            known = self._db.read(lambda each: _known_numbers(each, trial_id))
            new = list(self._new_rows(folder, trial_id, known))
            if not new:
                return
            self._db.write(lambda connection: connection.run_many(_INSERT, new))
            self._retain(trial_id)

    def finish_deletions(self) -> None:
        """Remove what a killed server had begun to delete."""
        with self._lock:
            rows = self._db.read(
                lambda each: each.rows("SELECT * FROM checkpoints WHERE is_deleted")
            )
            self._erase([_record_of(row) for row in rows])

    def _new_rows(
        self, folder: Path, trial_id: int, known: Mapping[int, set[str]]
    ) -> Iterator[dict[str, Any]]:
        for number, path in record_files(folder):
            saved = read_saved(path)
            if saved is None or saved.uid in known.get(number, ()):
                continue
            row = self._row_of(saved, trial_id, number)
            if row is not None:
                yield row

    def _row_of(self, saved: Saved, trial_id: int, number: int) -> dict[str, Any] | None:
        try:
            tree = read_tree(self._blobs.get(saved.manifest))
        except (OSError, RestoreError) as error:
            _log.warning("checkpoint %s of trial %s: %s", number, trial_id, error)
            return None
        files = [each for entries in tree.folders.values() for each in entries]
        given = {name: getattr(saved, name) for name in Saved.__struct_fields__ if name != "time"}
        return {
            **given,
            "name": saved.name.encode("utf-8", "backslashreplace").decode(),
            "created": saved.time if math.isfinite(saved.time) else 0.0,
            "metadata": msgspec.json.encode(saved.metadata) if saved.metadata else None,
            "trial_id": trial_id,
            "number": number,
            "files": len(files),
            "size": min(sum(each.size for each in files), 2**63 - 1),
        }

    def _retain(self, trial_id: int) -> None:
        keep = self._keeping(trial_id)
        if keep is None:
            return
        there = self._db.read(lambda each: _of_trial(each, trial_id))
        if len(there) <= keep.last:
            return
        values = values_at(self._home, trial_id, keep.metric, there) if keep.best else {}
        ids = [each.id for each in there]
        used = self._db.read(lambda each: {row["checkpoint_id"] for row in _uses(each, ids)})
        gone = to_delete(keep, there, values, used)
        self._erase(self._db.write(lambda each: _mark_deleted(each, gone)))

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
        return await self._db.aread(lambda connection: _find(connection, key))

    async def page(
        self, *, trial_id: int | None, sort: str, cursor: str | None, limit: int
    ) -> CheckpointPage:
        """Checkpoints that match, sorted, a page at a time."""
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
            return CheckpointPage(items=tuple(map(_record_of, rows)), next=after)

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
        metric = sort.removeprefix("-").removeprefix("metrics.")
        if trial_id is None:
            raise InvalidArgument(
                f"Checkpoints of all trials cannot be sorted by {metric!r}.",
                hint=f"Sort by one of: {', '.join(sorted(_SORTS))}; or ask for those of a trial.",
            )
        there = _of_trial(connection, trial_id)
        values = values_at(self._home, trial_id, metric, there)
        if there and not values:
            raise _unknown_metric(connection, trial_id, metric)
        sign = -1.0 if sort.startswith("-") else 1.0

        def key(each: CheckpointRecord) -> list[Any]:
            value = sign * values.get(each.id, math.nan)
            if math.isnan(value):
                return [1, 0.0, each.id]
            return [0, max(min(value, 1.7e308), -1.7e308), each.id]  # JSON has no infinities

        ordered = sorted(there, key=key)
        if cursor is not None:
            begin = decode_cursor(cursor, 3)
            try:
                ordered = [each for each in ordered if key(each) > begin]
            except TypeError:
                decode_cursor("", 3)
        page = [_with_metric(each, metric, values) for each in ordered[:limit]]
        after = encode_cursor(key(page[-1])) if len(ordered) > limit else None
        return CheckpointPage(items=tuple(page), next=after)

    async def change(self, key: str, change: ChangeCheckpoint) -> CheckpointRecord:
        """Give a checkpoint other metadata; what is not named stays."""

        def run(connection: Connection) -> CheckpointRecord:
            record = _find(connection, key)
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

        return await self._db.awrite(run)

    def delete(self, key: str) -> CheckpointRecord:
        """Have no such checkpoint any more; one that something needs stays."""

        def run(connection: Connection) -> CheckpointRecord:
            record = _find(connection, key)
            if not _mark_deleted(connection, [record]):
                raise _is_used(record, _uses(connection, [record.id]))
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
        for trial_id in trial_ids:
            self._store.take_in(trial_id)

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
        return msgspec.json.decode(os.read(fd, _LARGEST_RECORD), type=Saved)
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        _log.warning("%s is no record of a checkpoint: %s", path, error)
        return None
    finally:
        os.close(fd)


def use(connection: Connection, uid: str, kind: str, user_id: int) -> None:
    """Note that something needs a checkpoint: a `trial` that began with it, a `model` version."""
    connection.run(
        "INSERT INTO checkpoint_uses (checkpoint_id, kind, user_id)"
        " SELECT id, :kind, :user_id FROM checkpoints WHERE uid = :uid AND NOT is_deleted"
        " ON CONFLICT DO NOTHING",
        {"uid": uid, "kind": kind, "user_id": user_id},
    )


def let_go(connection: Connection, trial_ids: Sequence[int]) -> None:
    """Note that some trials, which are to be deleted, need no checkpoint any more."""
    asked = Conditions()
    asked.one_of("user_id", trial_ids)
    asked.equal("kind", "trial")
    connection.run(f"DELETE FROM checkpoint_uses{asked.text}", asked.parameters)


def refuse_used(connection: Connection, trial_ids: Sequence[int]) -> None:
    """Refuse that trials are deleted whose checkpoints somebody needs."""
    for trial_id in trial_ids:
        there = {each.id: each for each in _of_trial(connection, trial_id)}
        uses = _uses(connection, list(there))
        if uses:
            raise _is_used(there[uses[0]["checkpoint_id"]], uses)


def find_by_uid(connection: Connection, uid: str) -> CheckpointRecord | None:
    """The checkpoint with that uid, if there is one."""
    row = connection.row(f"{_LIVE} AND uid = :uid", {"uid": uid})
    return None if row is None else _record_of(row)


def _known_numbers(connection: Connection, trial_id: int) -> dict[int, set[str]]:
    query = "SELECT number, uid FROM checkpoints WHERE trial_id = :trial_id"
    known: dict[int, set[str]] = {}
    for row in connection.rows(query, {"trial_id": trial_id}):
        known.setdefault(row["number"], set()).add(row["uid"])
    return known


def _of_trial(connection: Connection, trial_id: int) -> list[CheckpointRecord]:
    rows = connection.rows(f"{_LIVE} AND trial_id = :trial_id ORDER BY id", {"trial_id": trial_id})
    return [_record_of(row) for row in rows]


def _find(connection: Connection, key: str) -> CheckpointRecord:
    if _UID.fullmatch(key):
        record = find_by_uid(connection, key)
        if record is not None:
            return record
    elif key.isascii() and key.isdecimal() and len(key) < 19:
        row = connection.row(f"{_LIVE} AND id = :id", {"id": int(key)})
        if row is not None:
            return _record_of(row)
    newest = connection.row(f"{_LIVE} ORDER BY id DESC LIMIT 1")
    there = "There are none yet: wl.save_checkpoint(path) in a trial saves one."
    if newest is not None:
        there = (
            f"The newest is {newest['id']}, of trial {newest['trial_id']}."
            " See them all: windlass checkpoint ls"
        )
    raise NotFound(f"There is no checkpoint {key[:80]}.", hint=there)


def _mark_deleted(
    connection: Connection, records: Sequence[CheckpointRecord]
) -> list[CheckpointRecord]:
    """Those that nothing needs, which are gone from now on."""
    mark = (
        "UPDATE checkpoints SET is_deleted = TRUE WHERE id = :id AND NOT EXISTS"
        " (SELECT 1 FROM checkpoint_uses WHERE checkpoint_id = :id)"
    )
    return [each for each in records if connection.run(mark, {"id": each.id})]


def _uses(connection: Connection, ids: Sequence[int]) -> list[Row]:
    asked = Conditions()
    asked.one_of("checkpoint_id", ids or [-1])
    query = f"SELECT * FROM checkpoint_uses{asked.text} ORDER BY kind, user_id"
    return connection.rows(query, asked.parameters)


def _is_used(record: CheckpointRecord, uses: Sequence[Row]) -> Conflict:
    named = [
        f"trial {row['user_id']} began with it"
        if row["kind"] == "trial"
        else f"a {row['kind']} uses it"
        for row in uses[:3]
    ]
    more = f" and {len(uses) - 3} more" if len(uses) > 3 else ""
    return Conflict(
        f"Checkpoint {record.id} cannot be deleted: {', '.join(named)}{more}.",
        hint="Nothing was deleted. What needs it has to go first.",
    )


def _unknown_metric(connection: Connection, trial_id: int, metric: str) -> InvalidArgument:
    query = "SELECT name FROM summaries WHERE trial_id = :trial_id ORDER BY name LIMIT 20"
    names = [row["name"] for row in connection.rows(query, {"trial_id": trial_id})]
    known = f"It reported: {', '.join(names)}." if names else "It reported no metrics."
    return InvalidArgument(
        f"Cannot sort by {metric[:80]!r}: trial {trial_id} reported no such metric.",
        hint=f"{known} Besides: {', '.join(sorted(_SORTS))}.",
    )


def _with_metric(
    record: CheckpointRecord, metric: str, values: Mapping[int, float]
) -> CheckpointRecord:
    if record.id not in values:
        return record
    value = values[record.id]
    told = value if math.isfinite(value) else repr(value)
    return msgspec.structs.replace(record, metrics={metric: told})


def _record_of(row: Row) -> CheckpointRecord:
    fields = {name: row[name] for name in _FIELDS}
    fields["is_folder"] = bool(row["is_folder"])
    metadata = msgspec.json.decode(row["metadata"]) if row["metadata"] else {}
    return CheckpointRecord(**fields, metadata=metadata)
