"""The files that differ between two trees, and the description of each difference."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from windlass.comparison import code_diff
from windlass.comparison.code_diff import Row, changed_files, wanted_contents, with_lines

_paths = st.sampled_from(["a.py", "b.py", "pkg/a.py", "pkg/b.py", "odd\n\udcff"])
_contents = st.sampled_from([b"", b"one\n", b"two\n", b"\0bin"])
_modes = st.sampled_from(["f", "x", "l"])
_trees = st.dictionaries(_paths, st.tuples(_modes, _contents))


def rows(tree: dict[str, tuple[str, bytes]]) -> list[Row]:
    """The rows of a tree in its manifest."""
    return sorted(
        (path, mode, "target", 0) if mode == "l" else (path, mode, digest(data), len(data))
        for path, (mode, data) in tree.items()
    )


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@given(_trees, _trees)
def test_the_changes_turn_one_tree_into_the_other(
    before: dict[str, tuple[str, bytes]], after: dict[str, tuple[str, bytes]]
) -> None:
    old, new = rows(before), rows(after)
    files = {path: (mode, ref, size) for path, mode, ref, size in old}
    changes = changed_files(old, new)
    for change in changes:
        if change.kind in ("removed", "renamed"):
            moved = files.pop(change.old_path or change.path)
            assert change.before is not None
            assert moved == (change.before.mode, change.before.content, change.before.size)
        if change.kind == "renamed":
            assert change.before is not None and change.after is not None
            assert change.before.content == change.after.content
        if change.after is not None:
            files[change.path] = (change.after.mode, change.after.content, change.after.size)
    assert files == {path: (mode, ref, size) for path, mode, ref, size in new}
    assert (not changes) == (old == new)


@given(_trees, _trees)
def test_downloads_are_sufficient_and_leave_out_equal_files(
    before: dict[str, tuple[str, bytes]], after: dict[str, tuple[str, bytes]]
) -> None:
    old, new = rows(before), rows(after)
    changes = changed_files(old, new)
    wanted = wanted_contents(changes)
    store = {digest(data): data for data in (b"", b"one\n", b"two\n", b"\0bin")}
    with_contents = with_lines(changes, {name: store[name] for name in wanted})
    assert not [change for change in with_contents if "not read" in change.note]
    same = {ref for path, mode, ref, size in old if (path, mode, ref, size) in new}
    elsewhere = {
        file.content
        for change in changes
        if change.kind != "renamed"
        for file in (change.before, change.after)
        if file is not None
    }
    assert not set(wanted) & (same - elsewhere)


def one(before: tuple[str, str, int] | None, after: tuple[str, str, int] | None) -> str:
    """The description of a differing file, without its lines."""
    old = [("a", *before)] if before else []
    new = [("a", *after)] if after else []
    [change] = with_lines(changed_files(old, new), {"1": b"x\n", "2": b"y\n", "0": b"\0"})
    return f"{change.kind}: {change.note or ' '.join(change.lines)}"


def test_links_modes_and_binary_files_are_described_without_contents() -> None:
    assert one(("f", "1", 2), ("x", "1", 2)) == "changed: now executable"
    assert one(("x", "1", 2), ("f", "1", 2)) == "changed: no longer executable"
    assert one(("l", "here", 0), ("l", "there", 0)) == "changed: a link to here → there"
    assert one(("l", "here", 0), ("f", "1", 2)) == "changed: was a link to here"
    assert one(("f", "1", 2), ("l", "here", 0)) == "changed: is now a link to here"
    assert one(None, ("l", "here", 0)) == "added: a link to here"
    assert one(("f", "1", 2), ("f", "0", 1)) == "changed: binary: 2 B → 1 B"
    assert one(None, ("x", "0", 1)) == "added: executable, binary: 1 B"
    assert one(("f", "1", 2), ("f", "2", 2)) == "changed: @@ -1 +1 @@ -x +y"


def test_huge_files_are_described_without_a_download() -> None:
    size = code_diff.LARGEST_READ + 1
    changes = changed_files([("a", "f", "1", 10)], [("a", "f", "2", size), ("b", "f", "3", size)])
    assert wanted_contents(changes) == []
    assert [change.note for change in with_lines(changes, {})] == [
        "large: 10 B → 1.0 MB",
        "large: 1.0 MB",
    ]


def test_the_total_download_is_limited_and_the_rest_is_marked() -> None:
    number = code_diff.MOST_READ // code_diff.LARGEST_READ
    new = [(f"{n:03}", "f", str(n), code_diff.LARGEST_READ) for n in range(number + 2)]
    changes = changed_files([], new)
    wanted = wanted_contents(changes)
    assert len(wanted) == number
    with_contents = with_lines(changes, dict.fromkeys(wanted, b"x\n"))
    assert [change.note for change in with_contents[-3:]] == ["", *["its lines were not read"] * 2]


def test_a_moved_file_is_a_rename_except_for_empty_files() -> None:
    before = [("a/train.py", "f", "1", 5), ("a/x.py", "f", "1", 5), ("empty", "f", "0", 0)]
    after = [("b/train.py", "f", "1", 5), ("none", "f", "0", 0), ("y.py", "f", "1", 5)]
    changes = [
        (change.kind, change.old_path, change.path) for change in changed_files(before, after)
    ]
    assert changes == [
        ("renamed", "a/train.py", "b/train.py"),
        ("removed", "", "empty"),
        ("added", "", "none"),
        ("renamed", "a/x.py", "y.py"),
    ]
