"""Trees are restored unchanged, replace existing files, and never leave their root."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.worker.blobs.restore_tree import RestoreError, Tree, clean, read_tree, restore


class Store:
    """A blob store and a work directory."""

    def __init__(self, path: Path) -> None:
        self.blobs = path / "blobs"
        self.work = path / "work"

    def tree(self, files: dict[str, tuple[str, bytes | str]]) -> Tree:
        listed: list[list[Any]] = []
        for name, (mode, content) in sorted(files.items()):
            if isinstance(content, str):
                listed.append([name, mode, content, 0])
                continue
            digest = hashlib.sha256(content).hexdigest()
            path = self.blobs / digest[:2] / digest
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            listed.append([name, mode, digest, len(content)])
        return read_tree(json.dumps({"files": listed, "version": 1}).encode())

    def restore(self, tree: Tree) -> None:
        restore(tree, str(self.work), str(self.blobs))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_modes_links_and_unusual_names_are_restored(store: Store) -> None:
    tree = store.tree(
        {
            "run.sh": ("x", b"#!/bin/sh\n"),
            "empty": ("f", b""),
            "deep/er/data.bin": ("f", b"\0" * 300_000),
            "odd \n name/ünï": ("f", b"1"),
            "bad\udcff": ("f", b"2"),
            "link": ("l", "deep/er"),
        }
    )
    store.restore(tree)
    work = store.work
    assert os.access(work / "run.sh", os.X_OK) and not os.access(work / "empty", os.X_OK)
    assert (work / "link" / "data.bin").read_bytes() == b"\0" * 300_000
    assert (work / "odd \n name" / "ünï").read_bytes() == b"1"
    with open(os.fsencode(work) + b"/bad\xff", "rb") as file:
        assert file.read() == b"2"
    clean(tree, str(work))
    assert os.listdir(work) == []


def test_only_unchanged_files_are_removed(store: Store) -> None:
    tree = store.tree(
        {
            "pkg/a.py": ("f", b"a"),
            "pkg/b.py": ("f", b"b"),
            "other/c": ("f", b"c"),
            "link": ("l", "pkg"),
        }
    )
    store.restore(tree)
    (store.work / "pkg" / "b.py").write_bytes(b"B")
    (store.work / "pkg" / "__pycache__").mkdir()
    (store.work / "pkg" / "__pycache__" / "a.pyc").write_bytes(b"x")
    (store.work / "result.csv").write_bytes(b"1")
    clean(tree, str(store.work))
    left = sorted(str(path.relative_to(store.work)) for path in store.work.rglob("*"))
    assert left == ["pkg", "pkg/b.py", "result.csv"]


def test_a_second_restore_replaces_existing_files(store: Store, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    tree = store.tree({"dir/precious": ("f", b"ours"), "file": ("f", b"1"), "sub/link": ("l", "x")})
    store.work.mkdir()
    # As an earlier attempt might have left it.
    (store.work / "dir").symlink_to(outside)
    (store.work / "file").symlink_to(outside / "precious")
    (store.work / "sub" / "link" / "full").mkdir(parents=True)
    store.restore(tree)
    assert (outside / "precious").read_text() == "kept"
    assert (store.work / "dir" / "precious").read_text() == "ours"
    assert (store.work / "file").read_text() == "1"
    assert os.readlink(store.work / "sub" / "link") == "x"
    (store.work / "dir" / "precious").unlink()
    (store.work / "dir").rmdir()
    (store.work / "dir").symlink_to(outside)
    clean(tree, str(store.work))
    assert (outside / "precious").read_text() == "kept"


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "..", "../a", "a/../../b", "a//b", "./a", "a/.", "a/", "a\0b"]
)
def test_paths_outside_the_tree_are_refused(path: str) -> None:
    manifest = json.dumps({"files": [[path, "f", "0" * 64, 1]], "version": 1})
    with pytest.raises(RestoreError):
        read_tree(manifest.encode())


@pytest.mark.parametrize(
    "files",
    [
        [["a", "l", "b", 0], ["a/passwd", "f", "0" * 64, 1]],
        [["a", "l", "/etc", 0]],
        [["a", "l", "../b", 0]],
        [["a/b", "l", "c/../../../d", 0]],
        [["a", "l", "b\0c", 0]],
        [["a", "l", 5, 0]],
        [[5, "f", "0" * 64, 1]],
        [["a", "f", "0" * 64, 1e999]],
        [["a", "f", "0" * 64, 1], ["a/b/c", "f", "0" * 64, 1]],
        [["a", "f", "0" * 64, 1], ["a", "x", "0" * 64, 1]],
        [["a", "f", "../../../etc/passwd", 1]],
        [["a", "q", "0" * 64, 1]],
        [["a", "f"]],
        [["a", "f", "0" * 64, 1, 0]],
        [["a", "f", "0" * 64, 1, -1, "00"]],
        [["a", "f", "0" * 64, -1, 0, "00"]],
        [["a", "f", "0" * 64, 1, "0", "00"]],
        [["a", "f", "0" * 64, 1, 0, ""]],
        [["a", "f", "0" * 64, 1, 0, 7]],
        [["a", "f", "../../../etc/passwd", 1, 0, "00"]],
        [["a", "l", "b", 0, 0, "00"]],
        [["a", "f", "0" * 64, 1, 0, "00", 1]],
        "files",
        [5],
    ],
)
def test_invalid_manifests_are_refused(files: object) -> None:
    with pytest.raises(RestoreError):
        read_tree(json.dumps({"files": files, "version": 1}).encode())


@given(st.binary(max_size=200) | st.just(b'{"files":[["a","f",1,1]]}') | st.just(b"[]"))
def test_no_manifest_causes_an_unexpected_error(manifest: bytes) -> None:
    try:
        read_tree(manifest)
    except RestoreError:
        pass


def test_missing_and_damaged_content_is_named(store: Store) -> None:
    tree = store.tree({"a.txt": ("f", b"hello")})
    [entry] = tree.folders[b""]
    blob = store.blobs / entry.content[:2] / entry.content
    blob.unlink()
    with pytest.raises(RestoreError, match=r"a\.txt.*missing"):
        store.restore(tree)
    blob.write_bytes(b"hell")
    with pytest.raises(RestoreError, match=r"a\.txt.*damaged"):
        store.restore(tree)
    with pytest.raises(RestoreError, match=r"a\.txt.*damaged"):  # set aside by the first restore
        store.restore(tree)
