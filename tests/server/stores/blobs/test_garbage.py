"""Garbage collection deletes unreferenced blobs, and never needed ones, during any writes."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from harness import eventually
from windlass.model.errors import Conflict
from windlass.packaging.manifest import Entry, encode_manifest
from windlass.server.db.base import Connection
from windlass.server.db.sqlite import SqliteDatabase
from windlass.server.stores.blobs.files import FileBlobStore
from windlass.server.stores.blobs.garbage import Garbage, mark_deleted
from windlass.worker.blobs.writer import held

LATELY = 1.0


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Store:
    """A store of blobs with a database that may reference some of them."""

    def __init__(self, path: Path) -> None:
        self.blobs = FileBlobStore(path / "blobs", lately=LATELY)
        self.database = SqliteDatabase(path / "windlass.db")
        self.trials = path / "trials"
        self.trials.mkdir()
        self.garbage = Garbage(self.trials, self.blobs, self.database)

    def put(self, data: bytes, *, age: float = 10 * 24 * 3600) -> str:
        digest = FileBlobStore(self.blobs.root).put(data)  # by an earlier server
        os.utime(self.blobs.path(digest), (time.time() - age, time.time() - age))
        return digest

    def tree(self, *contents: bytes, age: float = 10 * 24 * 3600) -> str:
        entries = [
            Entry(f"file-{number}", "f", self.put(data, age=age), len(data))
            for number, data in enumerate(contents)
        ]
        return self.put(encode_manifest(entries), age=age)

    def point_to(self, digest: str, column: str = "notes") -> None:
        """Insert a row that names a digest in any column."""

        def change(connection: Connection) -> None:
            connection.run(
                f"INSERT INTO experiments (project_id, name, created, {column})"
                " VALUES (1, 'x', 0, :text)",
                {"text": f'{{"a":["{digest}"]}}'.encode()},
            )

        self.database.write(change)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_unreferenced_blobs_are_deleted_and_new_ones_stay(store: Store) -> None:
    old, young = store.put(b"old"), store.put(b"young", age=60)
    report = store.garbage.collect(3600)
    assert (report.blobs, report.bytes, report.young) == (1, 3, 1)
    assert store.blobs.missing([old, young]) == [old]
    assert store.garbage.collect(3600).blobs == 0


def test_a_dry_run_reports_and_deletes_nothing(store: Store) -> None:
    old = store.put(b"old")
    assert store.garbage.collect(0, dry_run=True).blobs == 1
    assert store.blobs.has(old)


@pytest.mark.parametrize("column", ["notes", "config", "artifacts", "description"])
def test_a_referenced_tree_stays_with_all_its_files(store: Store, column: str) -> None:
    tree = store.tree(b"a", b"b")
    store.point_to(tree, column)
    other = store.tree(b"b", b"c")
    report = store.garbage.collect(0)
    assert report.blobs == 2, "the other list, and the one file that is of it alone"
    assert store.blobs.listed(tree) == [
        digest for digest in store.blobs.listed(tree) or () if store.blobs.has(digest)
    ]
    assert not store.blobs.has(other)


def test_files_with_either_digest_stay_with_their_manifest(store: Store) -> None:
    """For example the files of checkpoints, which trials store themselves."""
    names = [f"b3-{digest_of(data)}" for data in (b"needed", b"not needed")]
    for name in names:
        path = Path(store.blobs.path(name))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"content")
        os.utime(path, (0, 0))
    entries = [Entry("new", "f", names[0], 7), Entry("old", "f", store.put(b"content"), 7)]
    store.point_to(store.put(encode_manifest(entries)))
    assert store.garbage.collect(0).blobs == 1
    assert store.blobs.missing([*names, entries[1].ref]) == [names[1]]


def test_a_new_tree_keeps_its_old_files(store: Store) -> None:
    tree = store.tree(b"a", b"b")
    os.utime(store.blobs.path(tree))
    assert store.garbage.collect(3600).blobs == 0


def test_a_requested_blob_counts_as_new(store: Store) -> None:
    digest = store.put(b"old")
    assert store.blobs.has(digest)
    assert store.garbage.collect(3600).blobs == 0


def test_a_blob_with_a_hard_link_stays(store: Store, tmp_path: Path) -> None:
    digest = store.put(b"held")
    os.link(store.blobs.path(digest), tmp_path / "pin")
    assert store.garbage.collect(0).blobs == 0
    (tmp_path / "pin").unlink()
    assert store.garbage.collect(0).blobs == 1


def test_blobs_removed_by_a_killed_collection_are_restored(store: Store) -> None:
    kept, brought_again = store.put(b"kept"), store.put(b"again")
    for digest in (kept, brought_again):
        os.rename(store.blobs.path(digest), store.blobs.root / f".out-{digest}")
    store.blobs.put(b"again")
    again = FileBlobStore(store.blobs.root)
    again.sweep()
    assert again.get(kept) == b"kept"
    assert again.get(brought_again) == b"again"
    assert not [name for name in os.listdir(again.root) if name.startswith(".")]


def test_only_one_collection_runs_at_a_time(store: Store) -> None:
    with ThreadPoolExecutor(1) as pool:
        with held(str(store.blobs.root)):  # the first collection waits for this
            first = pool.submit(store.garbage.collect, 0)
            eventually(store.garbage._turn.locked, "it has begun")
            with pytest.raises(Conflict, match="already"):
                store.garbage.collect(0)
        first.result(60)
    store.garbage.collect(0)


def test_folders_of_deleted_trials_are_removed(store: Store) -> None:
    for name in ("7", ".gone-8", "notes", "7-backup"):
        (store.trials / name).mkdir()
        (store.trials / name / "log").write_text("12345")
    mark_deleted(store.trials, 7)  # by a server that was killed before it renamed the folder
    assert store.garbage.collect(0, dry_run=True).folders == 2
    report = store.garbage.collect(0)
    assert (report.folders, report.bytes) == (2, 10)
    assert sorted(os.listdir(store.trials)) == ["7-backup", "notes"]


@pytest.mark.finding("A7")
def test_folders_of_unknown_trials_stay_with_their_contents(store: Store) -> None:
    """As after an older database was restored."""
    payload, code, checkpoint = store.put(b"call"), store.tree(b"a"), store.tree(b"weights")
    attempt = store.trials / "7" / "main-0" / "1"
    attempt.mkdir(parents=True)
    launch = {"tree": store.blobs.path(code), "executable": {"payload": store.blobs.path(payload)}}
    (attempt / "launch.json").write_text(json.dumps(launch))
    (attempt / "log").write_text("12345")
    saved = store.trials / "7" / "checkpoints"
    saved.mkdir()
    (saved / "1.json").write_text(json.dumps({"manifest": checkpoint}))
    os.rename(store.trials / "7", store.trials / "12")

    report = store.garbage.collect(0)
    assert [folder.name for folder in report.unknown] == ["12"]
    assert (report.folders, report.blobs, report.unknown_count) == (0, 0, 1)
    assert (store.trials / "12/main-0/1/log").read_text() == "12345"

    assert not store.garbage.collect(0, dry_run=True, set_aside=True).set_aside
    aside = Path(store.garbage.collect(0, set_aside=True).set_aside)
    assert (aside / "12/main-0/1/log").read_text() == "12345"
    assert os.listdir(store.trials) == []
    later = store.garbage.collect(0)
    assert (later.unknown, later.blobs) == ((), 0), "its contents stay, so it can be moved back"
    shutil.rmtree(aside)
    assert store.garbage.collect(0).blobs == 5


@pytest.mark.thorough
def test_concurrent_writers_lose_nothing_to_an_aggressive_collection(store: Store) -> None:
    """Like clients: query missing blobs, upload them, then reference them if they exist."""
    contents = [f"content {number}".encode() for number in range(40)]
    stop = threading.Event()

    def write(seed: int) -> int:
        chance = random.Random(seed)
        stored = 0
        while not stop.is_set():
            request_time = time.time()
            tree = bring(chance.sample(contents, 3))
            stored += store.database.write(partial(point, tree=tree, request_time=request_time))
        return stored

    def bring(chosen: list[bytes]) -> str:
        digests = {digest_of(data): data for data in chosen}
        manifest = encode_manifest(
            [Entry(f"f{n}", "f", digest, 1) for n, digest in enumerate(sorted(digests))]
        )
        for data in [digests[missing] for missing in store.blobs.missing(digests)] + [manifest]:
            uploads = store.blobs.start_uploads()
            uploads.write(data)
            uploads.finish(digest_of(data))
            uploads.commit()
            uploads.close()
        return digest_of(manifest)

    def point(connection: Connection, tree: str, request_time: float) -> bool:
        if not store.blobs.has(tree) or time.time() - request_time > LATELY / 2:
            return False  # to be uploaded again
        connection.run(
            "INSERT INTO experiments (project_id, name, created, notes) VALUES (1, 'x', 0, :tree)",
            {"tree": tree},
        )
        return True

    def forget(connection: Connection) -> None:
        connection.run("DELETE FROM experiments WHERE id IN (SELECT id FROM experiments LIMIT 50)")

    with ThreadPoolExecutor(3) as pool:
        writing = [pool.submit(write, seed) for seed in range(3)]
        freed, end = 0, time.monotonic() + 60
        while freed < 200 and time.monotonic() < end:
            store.database.write(forget)
            freed += store.garbage.collect(0).blobs
        stop.set()
        assert min(future.result(60) for future in writing) > 0
    assert freed
    query = "SELECT notes FROM experiments"
    for row in store.database.read(lambda connection: connection.rows(query)):
        listed = store.blobs.listed(row["notes"])
        assert listed is not None, "the list itself is there"
        assert not store.blobs.missing(listed), "and all its files"


def test_nothing_is_deleted_while_a_trial_saves_a_checkpoint(store: Store, tmp_path: Path) -> None:
    """The trial finds an unreferenced file in the store, and then writes its record."""
    tree = store.tree(b"weights")
    store.database.write(insert_trial)
    with ThreadPoolExecutor(1) as pool:
        with held(str(store.blobs.root)):
            collecting = pool.submit(store.garbage.collect, 0)
            folder = store.trials / "1" / "checkpoints"
            folder.mkdir(parents=True)
            assert os.path.exists(store.blobs.path(tree))
            (folder / "1.json").write_text(f'{{"manifest": "{tree}"}}')
        assert collecting.result(60).blobs == 0
    (folder / "1.json").unlink()
    parts = folder / ".shards" / "10-2"
    parts.mkdir(parents=True)
    (parts / "0.json").write_text(f'{{"entries": [["a", "f", "{digest_of(b"weights")}", 7]]}}')
    assert store.garbage.collect(0).blobs == 1, "the list; the file belongs to a part"


def insert_trial(connection: Connection) -> None:
    connection.run("INSERT INTO experiments (id, project_id, name, created) VALUES (1, 1, 'x', 0)")
    connection.run(
        "INSERT INTO trials (id, uid, experiment_id, name, state, settled, created, restarts,"
        " signal, reason, message, priority, user, params, spec, status, provenance)"
        " VALUES (1, 'u', 1, 'x', 'RUNNING', 0, 0, 0, '', '', '', 0, '', '', '', '', '')"
    )
