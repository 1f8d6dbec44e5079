"""Trees of real files, and what tests do with them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from windlass.packaging.roots import Root
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
