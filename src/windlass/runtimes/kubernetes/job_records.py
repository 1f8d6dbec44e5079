"""Job records. Each describes a job that may have objects in a cluster.

A record is written to disk before its job's first object is created, and deleted after the last
object is deleted. No object is forgotten, even if the server dies in between.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from windlass.kube.capacity.nodes import Placement
from windlass.model.thread_safe_types import learned
from windlass.runtimes import paths
from windlass.runtimes.kubernetes.objects.manifests import JobRecord
from windlass.worker.common.atomic_files import remove_if_there, write_bytes, write_json
from windlass.worker.common.file_reads import list_folder, read_file, read_json

_IDENTITY = "identity"
_LONGEST = 100  # bytes


class JobRecords:
    """The records of all of a home's jobs. Thread-safe."""

    def __init__(self, home: Path) -> None:
        # The folder contains one file for each job that has objects in a cluster.
        self._folder = paths.job_records_dir(home)
        self._lock = threading.Lock()
        self._cache: dict[str, JobRecord | None] = {}
        self._identity = ""

    @property
    def identity(self) -> str:
        """The unchanging id in the labels of all objects that this home creates."""
        with self._lock:
            if not self._identity:
                path = self._folder / _IDENTITY
                self._identity = (read_file(str(path), _LONGEST) or b"").decode().strip()
                if not self._identity:
                    self._identity = secrets.token_hex(8)
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    write_bytes(str(path), self._identity.encode(), durable=True)
            return self._identity

    def find(self, uid: str) -> JobRecord | None:
        """Return the record of a job in a cluster, or None if there is none."""
        with self._lock:
            if uid not in self._cache:
                self._cache[uid] = self._read(uid)
            return self._cache[uid]

    def keep(self, record: JobRecord) -> None:
        """Store the record of a job in a cluster on disk."""
        with self._lock:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_json(str(self._path(record.uid)), msgspec.to_builtins(record), durable=True)
            self._cache[record.uid] = record

    def change(self, uid: str, **changes: object) -> None:
        """Change fields of a job's record. Do nothing if there is no record."""
        with self._lock:
            before = self._cache.get(uid) or self._read(uid)
            if before is not None:
                self._replace(before, msgspec.structs.replace(before, **changes))

    def place(self, uid: str, role: str, where: Placement) -> None:
        """Store the placement for a role's pods in the job's record.

        Do nothing if there is no record.
        """
        with self._lock:
            before = self._cache.get(uid) or self._read(uid)
            if before is not None:
                placements = {**before.placements, role: where}
                self._replace(before, msgspec.structs.replace(before, placements=placements))

    def drop(self, uid: str) -> None:
        """Delete the record of a job that has no objects left in the cluster."""
        with self._lock:
            remove_if_there(str(self._path(uid)))
            self._cache.pop(uid, None)

    def all(self) -> Iterator[JobRecord]:
        """Yield the records of all jobs that may have objects in a cluster."""
        for name in sorted(list_folder(self._folder)):
            uid, _, suffix = name.rpartition(".")
            record = self.find(uid) if suffix == "json" else None
            if record is not None:
                yield record

    def _replace(self, before: JobRecord, after: JobRecord) -> None:
        if after != before:
            write_json(str(self._path(after.uid)), msgspec.to_builtins(after), durable=True)
        self._cache[after.uid] = after

    def _read(self, uid: str) -> JobRecord | None:
        try:
            return msgspec.convert(read_json(str(self._path(uid))), learned(JobRecord))
        except msgspec.ValidationError:
            return None

    def _path(self, uid: str) -> Path:
        return self._folder / f"{uid}.json"
