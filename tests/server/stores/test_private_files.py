"""Each trial has its private file, also if some are equal."""

from __future__ import annotations

from pathlib import Path

from windlass.model.requests import Private
from windlass.server.stores.private_files import PrivateFiles

ALIKE = Private(environ={"A": "1"}, secrets={"TOKEN": "hush"})


def test_equal_files_exist_until_their_own_trial_ends(tmp_path: Path) -> None:
    files = PrivateFiles(tmp_path)
    for uid in ("a", "b", "c"):
        files.keep(uid, ALIKE)
    content = files.path("a").read_bytes()
    assert b"hush" in content
    files.erase("a")
    files.erase("c")
    files.keep("d", ALIKE)  # the newest is gone: written again
    assert not files.path("a").exists()
    assert not files.path("c").exists()
    assert files.path("b").read_bytes() == files.path("d").read_bytes() == content
    assert {path.name for path in tmp_path.iterdir()} == {"b", "d"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())


def test_different_files_are_never_shared(tmp_path: Path) -> None:
    files = PrivateFiles(tmp_path)
    files.keep("a", ALIKE)
    files.keep("b", Private(environ={"A": "2"}))
    files.keep("c", ALIKE)
    assert files.path("a").read_bytes() == files.path("c").read_bytes()
    assert b"hush" not in files.path("b").read_bytes()


def test_the_last_stored_content_counts(tmp_path: Path) -> None:
    files = PrivateFiles(tmp_path)
    files.keep("a", ALIKE)
    files.keep("b", ALIKE)
    files.keep("a", ALIKE)
    files.keep("a", Private())
    assert b"hush" in files.path("b").read_bytes()
    assert b"hush" not in files.path("a").read_bytes()
