"""Claims: what jobs have in the cluster, written down before it is made.

So whatever dies, nothing is left there that nobody knows of: a claim goes when all that is its own
has gone.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from windlass.kube.nodes import Placement
from windlass.model.learning import learned
from windlass.runtimes import layout
from windlass.runtimes.kubernetes.building import Claim
from windlass.worker.files import read_json, remove_if_there, write_bytes, write_json

_IDENTITY = "identity"


class Claims:
    """The claims of all jobs of a home. All methods may be called from any thread."""

    def __init__(self, home: Path) -> None:
        self._folder = layout.claims_dir(home)  # a file for each job that has anything there
        self._lock = threading.Lock()
        self._known: dict[str, Claim | None] = {}
        self._identity = ""

    @property
    def identity(self) -> str:
        """Whose all of it is: the same for the life of the home."""
        with self._lock:
            if not self._identity:
                path = self._folder / _IDENTITY
                try:
                    self._identity = path.read_text().strip()
                except FileNotFoundError:
                    self._identity = secrets.token_hex(8)
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    write_bytes(str(path), self._identity.encode(), durable=True)
            return self._identity

    def find(self, uid: str) -> Claim | None:
        """The claim of a job, if it has one."""
        with self._lock:
            if uid not in self._known:
                self._known[uid] = self._read(uid)
            return self._known[uid]

    def keep(self, claim: Claim) -> None:
        """Write a claim down."""
        with self._lock:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_json(str(self._path(claim.uid)), msgspec.to_builtins(claim), durable=True)
            self._known[claim.uid] = claim

    def change(self, uid: str, **changes: object) -> None:
        """Write down what is known of a claim by now; nothing if there is none."""
        with self._lock:
            before = self._known.get(uid) or self._read(uid)
            if before is not None:
                self._replace(before, msgspec.structs.replace(before, **changes))

    def place(self, uid: str, role: str, where: Placement) -> None:
        """Write down where the pods of a role are put; nothing if there is no claim."""
        with self._lock:
            before = self._known.get(uid) or self._read(uid)
            if before is not None:
                placements = {**before.placements, role: where}
                self._replace(before, msgspec.structs.replace(before, placements=placements))

    def drop(self, uid: str) -> None:
        """Nothing of a job is left in the cluster."""
        with self._lock:
            remove_if_there(str(self._path(uid)))
            self._known.pop(uid, None)

    def all(self) -> Iterator[Claim]:
        """Every claim there is."""
        for path in sorted(self._folder.glob("*.json")):
            found = self.find(path.stem)
            if found is not None:
                yield found

    def _replace(self, before: Claim, after: Claim) -> None:
        if after != before:
            write_json(str(self._path(after.uid)), msgspec.to_builtins(after), durable=True)
        self._known[after.uid] = after

    def _read(self, uid: str) -> Claim | None:
        try:
            return msgspec.convert(read_json(str(self._path(uid))), learned(Claim))
        except msgspec.ValidationError:
            return None

    def _path(self, uid: str) -> Path:
        return self._folder / f"{uid}.json"
