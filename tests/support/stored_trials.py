"""Trials with a hand-made code tree and environment, submitted in the format of the API."""

from __future__ import annotations

import hashlib
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import windlass as wl
from windlass.client.client import Client
from windlass.client.resources.trial.trial import Trial
from windlass.model.hardware.resources import Resources
from windlass.model.job import Code, JobSpec, ProcessCall, Python, Role
from windlass.model.records import TrialRecord
from windlass.model.requests import CreateTrial
from windlass.packaging.manifest import Entry, encode_manifest


def upload(*blobs: bytes) -> list[str]:
    """Upload blobs to the server and return their digests."""
    pack = b"".join(
        hashlib.sha256(data).digest() + len(data).to_bytes(8, "big") + data for data in blobs
    )
    Client().transport.fetch("POST", "/blobs", body=pack)
    return [hashlib.sha256(data).hexdigest() for data in blobs]


def upload_tree(files: Mapping[str, bytes | tuple[str, Any]]) -> str:
    """Upload a tree and return its digest: contents by path, or a mode (`x`, `l`) with contents."""
    entries, blobs = [], []
    for path, what in files.items():
        mode, content = what if isinstance(what, tuple) else ("f", what)
        if mode == "l":
            entries.append(Entry(path, "l", content, 0))
        else:
            blobs.append(content)
            entries.append(Entry(path, mode, hashlib.sha256(content).hexdigest(), len(content)))
    return upload(*blobs, encode_manifest(entries))[-1]


def plant_manifest(home: Path, manifest: bytes) -> str:
    """Put a manifest into the store behind the server's back and return its digest."""
    digest = hashlib.sha256(manifest).hexdigest()
    place = home / "blobs" / digest[:2] / digest
    place.parent.mkdir(mode=0o700, exist_ok=True)
    place.write_bytes(manifest)
    return digest


def forget_blob(home: Path, data: bytes) -> None:
    """Remove a blob from the store."""
    digest = hashlib.sha256(data).hexdigest()
    (home / "blobs" / digest[:2] / digest).unlink()


def call(name: str = "main", **fields: Any) -> Role:
    """A role that does nothing and exits quickly."""
    argv = ("python", "-c", "pass")
    request_fields = {"executable": ProcessCall(argv=argv), "resources": Resources(cpus=0.01)}
    return Role(name=name, **{**request_fields, **fields})


def submit(tree: str | None = None, *roles: Role, **fields: Any) -> Trial[Any]:
    """Submit a trial in that tree, suspended by default, because most tests only read it."""
    spec = {"suspend": True, "python": Python(executable=sys.executable), **fields.pop("spec", {})}
    request = CreateTrial(
        key=uuid.uuid4().hex,
        experiment=fields.pop("experiment", "stored"),
        spec=JobSpec(roles=roles or (call(),), code=Code(tree=tree), **spec),
        **fields,
    )
    record = Client().transport.ask("POST", "/trials", TrialRecord, body=request)
    return wl.get_trial(record.id)
