"""Trees of real files, and helpers for them."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from windlass.packaging.project_files import git as git_repository
from windlass.packaging.project_files.project_root import Root
from windlass.packaging.snapshot import Snapshot, take_snapshot


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def snapshot_of(folder: Path, cache: Path, **options: bool) -> Snapshot:
    kind = "git" if (folder / ".git").exists() else "folder"
    return take_snapshot(Root(folder, kind), cache, **options)  # type: ignore[arg-type]


def paths(snapshot: Snapshot) -> list[str]:
    return [entry.path for entry in snapshot.entries]


def refuse_to_ask_git(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: str, arguments: object, data: bytes) -> None:
        raise AssertionError(f"git was asked: {arguments}")

    monkeypatch.setattr(git_repository, "_start", refuse)


def settle(folder: Path, cache: Path) -> Snapshot:
    """Take snapshots until no file is so new that it would be read again."""
    deadline = time.monotonic() + 20
    while True:
        began = time.time()
        snapshot = snapshot_of(folder, cache)
        newest = max(
            max(status.st_mtime, status.st_ctime)
            for status in map(os.lstat, [folder, *folder.rglob("*")])
        )
        if began - newest > 0.15:
            return snapshot
        assert time.monotonic() < deadline
