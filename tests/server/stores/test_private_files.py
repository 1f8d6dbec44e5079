"""Private files: one a trial, whichever of them are alike."""

from __future__ import annotations

from pathlib import Path

from windlass.model.requests import Private
from windlass.server.stores.private_files import PrivateFiles

ALIKE = Private(environ={"A": "1"}, secrets={"TOKEN": "hush"})


def test_those_that_are_alike_are_each_there_until_their_own_trial_ends(tmp_path: Path) -> None:
    files = PrivateFiles(tmp_path)
    for uid in ("a", "b", "c"):
        files.keep(uid, ALIKE)
    content = files.path("a").read_bytes()
    assert b"hush" in content
    files.erase("a")
    files.erase("c")
    files.keep("d", ALIKE)  # the newest is gone: written anew
    assert not files.path("a").exists()
    assert not files.path("c").exists()
    assert files.path("b").read_bytes() == files.path("d").read_bytes() == content
    assert {path.name for path in tmp_path.iterdir()} == {"b", "d"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())


def test_what_differs_is_never_shared(tmp_path: Path) -> None:
    files = PrivateFiles(tmp_path)
    files.keep("a", ALIKE)
    files.keep("b", Private(environ={"A": "2"}))
    files.keep("c", ALIKE)
    assert files.path("a").read_bytes() == files.path("c").read_bytes()
    assert b"hush" not in files.path("b").read_bytes()


def test_one_that_is_kept_again_is_what_was_given_last(tmp_path: Path) -> None:
    files = PrivateFiles(tmp_path)
    files.keep("a", ALIKE)
    files.keep("b", ALIKE)
    files.keep("a", ALIKE)
    files.keep("a", Private())
    assert b"hush" in files.path("b").read_bytes()
    assert b"hush" not in files.path("a").read_bytes()
