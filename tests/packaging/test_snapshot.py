from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from trees import git, paths, refuse_to_ask_git, settle, snapshot_of, write

from windlass.model.errors import SnapshotError
from windlass.packaging.manifest import Entry, parse_manifest
from windlass.packaging.project_files import (
    file_contents,
    file_listing,
    limits,
    listing_freshness,
)
from windlass.packaging.snapshot import Snapshot, SnapshotChanged

AGED = 1_600_000_000


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def entry(snapshot: Snapshot, path: str) -> Entry:
    return next(entry for entry in snapshot.entries if entry.path == path)


def refuse_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, flags: int, hold: bool) -> None:
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr(file_contents, "read_file", refuse)


def refuse_to_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, step: object, is_repository: bool) -> None:
        raise AssertionError("the tree was walked")

    monkeypatch.setattr(file_listing._Walk, "_list_folder", refuse)


def test_a_snapshot_contains_contents_modes_and_links(tree: Path, cache: Path) -> None:
    write(tree, {"run.sh": "#!/bin/sh\n", "empty": "", "p/a.py": "x = 1\n"})
    (tree / "run.sh").chmod(0o755)
    (tree / "p/link.py").symlink_to("a.py")
    snapshot = snapshot_of(tree, cache)
    assert snapshot.entries == [
        Entry("empty", "f", digest(b""), 0),
        Entry("p/a.py", "f", digest(b"x = 1\n"), 6),
        Entry("p/link.py", "l", "a.py", 0),
        Entry("run.sh", "x", digest(b"#!/bin/sh\n"), 10),
    ]
    assert parse_manifest(snapshot.manifest) == snapshot.entries
    assert snapshot.tree == digest(snapshot.manifest)
    assert (snapshot.files, snapshot.size) == (4, 16)
    assert snapshot.read(digest(b"x = 1\n")) == b"x = 1\n"


def test_equal_trees_have_equal_digests_in_any_folder(tmp_path: Path, cache: Path) -> None:
    files: dict[str, str | bytes] = {"b.py": "b", "a/c.py": "c", "a.py": "a", "a-b.py": ""}
    write(tmp_path / "one", files)
    write(tmp_path / "two", dict(reversed(list(files.items()))))
    git(tmp_path / "two", "init", "-q")
    one, two = snapshot_of(tmp_path / "one", cache), snapshot_of(tmp_path / "two", cache)
    assert one.tree == two.tree
    assert one.manifest == two.manifest


ODD_NAMES = [
    b"two words",
    b"new\nline",
    b"-rf",
    b"caf\xc3\xa9",
    b"not utf-8 \xff\xfe",
    b'quo"te',
    b"back\\slash",
    b"*?[",
    b"\xe2\x98\x83",
    b" ",
    b"tab\t",
]


@pytest.mark.parametrize("is_repository", [True, False])
def test_unusual_names_survive(tree: Path, cache: Path, is_repository: bool) -> None:
    if is_repository:
        git(tree, "init", "-q")
    write(tree, {".gitignore": "ignored*\n"})
    for name in [*ODD_NAMES, b"ignored \xff"]:
        with open(os.fsencode(tree) + b"/" + name, "wb") as file:
            file.write(name)
    snapshot = snapshot_of(tree, cache)
    assert {os.fsencode(path) for path in paths(snapshot)} == {*ODD_NAMES, b".gitignore"}
    assert parse_manifest(snapshot.manifest) == snapshot.entries
    assert snapshot_of(tree, cache).manifest == snapshot.manifest
    for name in ODD_NAMES:
        assert snapshot.read(digest(name)) == name


def test_an_unchanged_tree_is_neither_walked_nor_read_again(
    repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, {"a.py": "a", "p/b.py": "b", "p/q/c.py": "c"})
    (repository / "p/link").symlink_to("q/c.py")
    before = settle(repository, cache)
    refuse_to_read(monkeypatch)
    refuse_to_walk(monkeypatch)
    again = snapshot_of(repository, cache)
    assert (again.tree, again.files, again.size) == (before.tree, 4, 3)
    assert again.manifest == before.manifest
    assert again.entries == before.entries


def test_only_changed_files_are_read_again(
    repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, {f"p{index % 3}/f{index}.py": str(index) for index in range(50)})
    settle(repository, cache)
    refuse_to_walk(monkeypatch)
    read: list[str] = []
    really = file_contents.read_file
    monkeypatch.setattr(file_contents, "read_file", lambda *a: (read.append(a[0]), really(*a))[1])
    write(repository, {"p1/f7.py": "changed"})
    snapshot = snapshot_of(repository, cache)
    assert read == [str(repository / "p1/f7.py")]
    assert entry(snapshot, "p1/f7.py").ref == digest(b"changed")
    assert parse_manifest(snapshot.manifest) == snapshot.entries


def fresh(folder: Path, tmp_path: Path) -> Snapshot:
    """The snapshot of the tree without a cache."""
    return snapshot_of(folder, tmp_path / f"no-cache-{os.urandom(4).hex()}")


@pytest.mark.parametrize("is_repository", [True, False])
def test_a_snapshot_with_a_cache_equals_one_without_after_any_change(
    tree: Path, cache: Path, tmp_path: Path, is_repository: bool
) -> None:
    if is_repository:
        git(tree, "init", "-q")
    write(tree, {".gitignore": "*.log\n", "a.py": "a", "p/b.py": "b", "p/c.py": "c", "q/d.py": "d"})
    (tree / "link").symlink_to("p")
    (tree / "hollow").mkdir()

    def save_as_editors_do() -> None:
        write(tree, {"p/.b.py.swp": "B"})
        os.replace(tree / "p/.b.py.swp", tree / "p/b.py")

    def swap_kinds() -> None:
        (tree / "q/d.py").unlink()
        write(tree, {"q/d.py/inside.py": "1"})

    def relink() -> None:
        (tree / "link").unlink()
        (tree / "link").symlink_to("q")

    steps = [
        lambda: write(tree, {"a.py": "A"}),  # same size
        lambda: os.utime(tree / "a.py", (AGED, AGED)),
        lambda: (tree / "a.py").chmod(0o755),
        save_as_editors_do,
        lambda: write(tree, {"p/new.py": "new"}),
        lambda: write(tree, {"p/new.log": "ignored"}),
        lambda: write(tree, {"hollow/deep/er.py": "new"}),
        lambda: write(tree, {"hollow/deep/er.log": "ignored"}),
        lambda: (tree / "p/c.py").unlink(),
        lambda: os.rename(tree / "p", tree / "moved"),
        relink,
        swap_kinds,
        lambda: write(tree, {"moved/.gitignore": "b.py\n"}),
        lambda: write(tree, {"moved/.gitignore": "new.py\n"}),
        lambda: (tree / "moved/.gitignore").unlink(),
        lambda: write(tree, {".windlassignore": "/moved/\n"}),
        lambda: write(tree, {"moved/more.py": "", "other.py": ""}),
        lambda: write(tree, {".windlassignore": "!*.log\n"}),
        lambda: (tree / ".windlassignore").unlink(),
        lambda: git(tree, "init", "-q"),
        lambda: git(tree, "add", "-A"),
        lambda: git(tree, "add", "-f", "moved/new.log"),
        lambda: git(tree, "commit", "-qm", "all"),
        lambda: git(tree, "reset", "-q", "--hard"),
        lambda: git(tree / "hollow", "init", "-q"),
        lambda: write(tree, {"hollow/.gitignore": "*.py\n"}),
    ]
    for number, step in enumerate(steps):
        step()
        remembered = snapshot_of(tree, cache)
        assert remembered.entries == fresh(tree, tmp_path).entries, f"step {number}"
        assert remembered.tree == digest(remembered.manifest), f"step {number}"
        assert parse_manifest(remembered.manifest) == remembered.entries, f"step {number}"


def test_staging_changes_nothing_and_git_is_not_called(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tree, "init", "-q")
    write(tree, {".gitignore": "*.log\n/out/\n", "a.py": "1", "symlink.py": "2"})
    write(tree, {"run.log": "", "out/x": ""})
    before = settle(tree, cache)
    git(tree, "add", "-A")
    refuse_to_ask_git(monkeypatch)
    assert snapshot_of(tree, cache).entries == before.entries


@pytest.mark.parametrize("layout", ["--index-version=2", "--index-version=4", "--split-index"])
@pytest.mark.parametrize(
    "added",
    [
        "run.log",
        *(pytest.param(name, marks=pytest.mark.thorough) for name in ("later.log", "out/x")),
    ],
)
def test_an_ignored_file_is_included_once_it_is_tracked(
    tree: Path, cache: Path, layout: str, added: str
) -> None:
    git(tree, "init", "-q")
    write(tree, {".gitignore": "*.log\n/out/\n", "a.py": "1", "run.log": "", "out/x": ""})
    git(tree, "add", "-A")
    git(tree, "update-index", layout)
    settle(tree, cache)
    write(tree, {"later.log": ""})
    assert paths(settle(tree, cache)) == [".gitignore", "a.py"]
    git(tree, "add", "-f", added)
    assert paths(snapshot_of(tree, cache)) == sorted([".gitignore", "a.py", added])
    git(tree, "rm", "-q", "--cached", added)
    assert paths(snapshot_of(tree, cache)) == [".gitignore", "a.py"]


def test_a_change_that_keeps_size_and_modification_time_is_detected(
    tree: Path, cache: Path
) -> None:
    write(tree, {"a.py": "one"})
    os.utime(tree / "a.py", (AGED, AGED))
    before = settle(tree, cache)
    write(tree, {"a.py": "two"})
    os.utime(tree / "a.py", (AGED, AGED))
    after = snapshot_of(tree, cache)
    assert entry(after, "a.py").ref == digest(b"two")
    assert after.tree != before.tree


def test_quick_changes_of_the_same_size_are_all_detected(tree: Path, cache: Path) -> None:
    for index in range(50):
        write(tree, {"a.py": f"{index:03}"})
        assert entry(snapshot_of(tree, cache), "a.py").ref == digest(f"{index:03}".encode())


def test_a_recently_changed_file_is_read_again_although_its_folder_is_old(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a coarse clock, its modification time would hide one more change."""
    write(tree, {"a.py": "1", "b.py": "2"})
    settle(tree, cache)
    monkeypatch.setattr(listing_freshness, "_TICK", 10**18)
    write(tree, {"a.py": "3"})
    snapshot_of(tree, cache)
    refuse_to_read(monkeypatch)
    with pytest.raises(AssertionError, match=r"a\.py was read"):
        snapshot_of(tree, cache)


@pytest.mark.parametrize("damage", ["empty", "torn", "flipped", "other", "manifest", "folder"])
def test_a_damaged_cache_is_ignored(tree: Path, cache: Path, damage: str) -> None:
    write(tree, {"a.py": "a", "b/c.py": "c"})
    before = settle(tree, cache)
    (file,) = (cache / "trees").iterdir()
    data = bytearray(file.read_bytes())
    if damage == "empty":
        data.clear()
    elif damage == "torn":
        del data[len(data) // 3 :]
    elif damage == "flipped":
        data[len(data) // 3] ^= 0xFF
    elif damage == "other":
        data[:] = b"something else"
    elif damage == "manifest":
        data[-20] ^= 0xFF
    file.unlink()
    file.mkdir() if damage == "folder" else file.write_bytes(data)
    assert snapshot_of(tree, cache).manifest == before.manifest
    write(tree, {"a.py": "changed"})
    after = snapshot_of(tree, cache)
    assert entry(after, "a.py").ref == digest(b"changed")
    assert after.tree == digest(after.manifest)


def test_a_cache_that_cannot_be_written_is_not_an_error(tree: Path, tmp_path: Path) -> None:
    write(tree, {"a.py": ""})
    (tmp_path / "file").write_text("")
    assert snapshot_of(tree, tmp_path / "file").files == 1


def test_several_processes_may_take_snapshots_at_once(tree: Path, cache: Path) -> None:
    write(tree, {f"{index}.py": str(index) for index in range(200)})
    program = (
        "import sys; from pathlib import Path\n"
        "from windlass.packaging.project_files.project_root import Root\n"
        "from windlass.packaging.snapshot import take_snapshot\n"
        "for _ in range(10): print(take_snapshot(Root(Path(sys.argv[1]), 'folder'),"
        " Path(sys.argv[2])).tree)\n"
    )
    command = [sys.executable, "-c", program, str(tree), str(cache)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    answers = {line for process in running for line in process.communicate()[0].split()}
    assert answers == {snapshot_of(tree, cache).tree.encode()}
    assert len(list((cache / "trees").iterdir())) == 1


def test_links_inside_the_tree_stay_links(tree: Path, tmp_path: Path, cache: Path) -> None:
    write(tree, {"p/a.py": "a"})
    write(tmp_path, {"outside.txt": "outside"})
    (tree / "relative").symlink_to("p/a.py")
    (tree / "folder").symlink_to("p")
    (tree / "absolute").symlink_to(tree / "p/a.py")
    (tree / "p/up").symlink_to(tree / "relative")
    (tree / "around").symlink_to(f"../{tree.name}/p/a.py")
    (tree / "winding").symlink_to("folder/../relative")
    (tree / "dangling").symlink_to("nothing/here")
    (tree / "elsewhere").symlink_to(tmp_path / "outside.txt")
    (tree / "lost").symlink_to("/nowhere/at/all")
    (tree / "itself").symlink_to("itself")
    entries_by_path = {entry.path: entry for entry in snapshot_of(tree, cache).entries}
    assert {
        path: recorded.ref for path, recorded in entries_by_path.items() if recorded.mode == "l"
    } == {
        "relative": "p/a.py",
        "folder": "p",
        "absolute": "p/a.py",
        "p/up": "../relative",
        "around": "p/a.py",
        "winding": "p/a.py",
        "dangling": "nothing/here",
        "itself": "itself",
    }
    assert entries_by_path["elsewhere"] == Entry("elsewhere", "f", digest(b"outside"), 7)
    assert "lost" not in entries_by_path
    (tmp_path / "outside.txt").write_text("changed")
    snapshot = snapshot_of(tree, cache)
    assert entry(snapshot, "elsewhere").ref == digest(b"changed")
    assert snapshot.read(digest(b"changed")) == b"changed"


@pytest.mark.finding("U21")
def test_a_link_to_a_folder_or_a_large_file_outside_stays_a_link(
    tree: Path, tmp_path: Path, cache: Path
) -> None:
    datasets = tmp_path / "datasets"
    datasets.mkdir()
    with (datasets / "large.bin").open("wb") as file:
        file.truncate(20_000_000)
    write(tree, {"sub/a.py": ""})
    (tree / "data").symlink_to(datasets)
    (tree / "doubled").symlink_to(f"/{datasets}/")
    (tree / "large.bin").symlink_to(datasets / "large.bin")
    (tree / "sub/relative").symlink_to("../../datasets")
    for _ in range(2):  # the second snapshot comes from the cache
        snapshot = snapshot_of(tree, cache)
        expected = [
            ("data", str(datasets)),
            ("doubled", str(datasets)),
            ("large.bin", str(datasets / "large.bin")),
            ("sub/relative", str(datasets)),
        ]
        assert snapshot.outside_links == expected
        assert snapshot.size == 0
        assert parse_manifest(snapshot.manifest) == snapshot.entries
    write(tree, {".windlassignore": "/data\n"})
    assert "data" not in paths(snapshot_of(tree, cache))
    (tree / "disk").symlink_to("/")
    with pytest.raises(SnapshotError, match=r"disk .*link to the root"):
        snapshot_of(tree, cache)


@pytest.mark.parametrize("is_repository", [False, True])
def test_a_dangling_link_is_included_once_it_has_a_target(
    tree: Path, cache: Path, tmp_path: Path, is_repository: bool
) -> None:
    if is_repository:
        git(tree, "init", "-q")
    write(tree, {"sub/train.py": "1"})
    (tree / "sub" / "data").symlink_to(tmp_path / "later")
    assert paths(settle(tree, cache)) == ["sub/train.py"]
    (tmp_path / "later").write_text("here now")
    assert paths(snapshot_of(tree, cache)) == ["sub/data", "sub/train.py"]
    (tree / "sub" / "data").unlink()
    (tree / "sub" / "data").symlink_to("train.py")
    assert snapshot_of(tree, cache).entries[0][:3] == ("sub/data", "l", "train.py")


def test_pipes_and_sockets_are_left_out(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tree / "pipe")
    monkeypatch.chdir(tree)  # a socket's name must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        write(tree, {"a.py": ""})
        assert paths(snapshot_of(tree, cache)) == ["a.py"]


def test_an_unreadable_file_is_named_with_a_remedy(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, {"a.py": "", "secret one": "", "p/two": ""})
    really = os.open

    def refuse(path: str, *rest: int) -> int:
        if str(path).endswith(("secret one", "two")):
            raise PermissionError(13, "Permission denied", path)
        return really(path, *rest)

    monkeypatch.setattr(os, "open", refuse)  # the current user may be root
    with pytest.raises(SnapshotError) as caught:
        snapshot_of(tree, cache)
    text = str(caught.value)
    assert "2 files" in text and "secret one: Permission denied" in text
    assert ".windlassignore" in text and "/p/two" in text and "chmod" in text


def test_a_file_that_keeps_changing_is_sent_with_the_digested_content(
    tree: Path, cache: Path
) -> None:
    write(tree, {"a.py": "", "log.txt": "0" * 100_000})
    stop = threading.Event()

    def scribble() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            with open(tree / "log.txt", "r+b") as file:
                file.write(str(number % 10).encode() * 100_000)

    writer = threading.Thread(target=scribble)
    writer.start()
    try:
        for _ in range(5):
            snapshot = snapshot_of(tree, cache, hold=True)
            file_entry = entry(snapshot, "log.txt")
            data = snapshot.read(file_entry.ref)
            assert (digest(data), len(data)) == (file_entry.ref, file_entry.size)
    finally:
        stop.set()
        writer.join()


def test_a_file_that_changes_while_it_is_read_is_read_again(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tree / "a.bin"
    file.write_bytes(b"a" * 100)
    really, changes = os.read, iter([b"b" * 100, b"c" * 150])

    def read(descriptor: int, size: int) -> bytes:
        data = really(descriptor, size)
        if (change := next(changes, None)) is not None:
            file.write_bytes(change)
        return data

    monkeypatch.setattr(file_contents.os, "read", read)
    content, size, _, kept = file_contents.read_file(str(file), 0, False)
    assert (content, size, kept) == (hashlib.sha256(b"c" * 150).digest(), 150, None)


def test_a_file_deleted_before_it_is_read_is_left_out(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, {"a.py": "a", "b.py": "b"})
    really = file_contents.read_file

    def read(path: str, flags: int, hold: bool) -> object:
        if path.endswith("a.py"):
            (tree / "a.py").unlink()
        return really(path, flags, hold)

    monkeypatch.setattr(file_contents, "read_file", read)
    snapshot = snapshot_of(tree, cache)
    assert paths(snapshot) == ["b.py"]
    assert parse_manifest(snapshot.manifest) == snapshot.entries


def test_each_blob_is_sent_once_and_the_manifest_last(tree: Path, cache: Path) -> None:
    write(tree, {"a": "same", "b": "same", "c": "other"})
    snapshot = snapshot_of(tree, cache)
    digests = [snapshot.tree, digest(b"same"), digest(b"other"), digest(b"same")]
    assert list(snapshot.iter_blobs(digests)) == [
        (digest(b"same"), b"same"),
        (digest(b"other"), b"other"),
        (snapshot.tree, snapshot.manifest),
    ]
    with pytest.raises(KeyError):
        snapshot.read(digest(b"never there"))


@pytest.mark.parametrize("change", ["write", "unlink"])
def test_a_changed_file_is_not_sent_under_the_old_digest(
    tree: Path, cache: Path, change: str
) -> None:
    write(tree, {"a.py": "before"})
    snapshot = snapshot_of(tree, cache)
    if change == "write":
        write(tree, {"a.py": "after!"})
    else:
        (tree / "a.py").unlink()
    with pytest.raises(SnapshotChanged, match=r"a\.py"):
        list(snapshot.iter_blobs([digest(b"before")]))


def test_the_second_try_keeps_the_content_it_read(tree: Path, cache: Path) -> None:
    write(tree, {"a.py": "before"})
    snapshot = snapshot_of(tree, cache, hold=True)
    write(tree, {"a.py": "after!"})
    assert snapshot.read(digest(b"before")) == b"before"


def test_a_too_large_tree_is_refused_before_reading_with_a_remedy(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_read(monkeypatch)
    write(tree, {"a.py": "a", "runs/1/notes.txt": "x"})
    for name, megabytes in (("runs/1/model [best].bin", 150), ("runs/2.bin", 90), ("d.csv", 30)):
        with open(tree / name, "wb") as file:
            file.truncate(megabytes * 1_000_000)
    with pytest.raises(SnapshotError) as caught:
        snapshot_of(tree, cache)
    text = str(caught.value)
    assert "270.0 MB in 5 files" in text
    assert "150.0 MB  runs/1/model [best].bin" in text
    lines = [line.strip() for line in text.split(".windlassignore")[1].splitlines()[1:]]
    assert lines == [r"/runs/1/model \[best].bin", "/runs/2.bin", "/d.csv"]
    monkeypatch.undo()
    monkeypatch.setenv("WINDLASS_HOME", str(cache / "home"))
    write(tree, {".windlassignore": "\n".join(lines)})
    assert paths(snapshot_of(tree, cache)) == [".windlassignore", "a.py", "runs/1/notes.txt"]


def test_too_many_files_are_refused_with_their_folders(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_FILES", 50)
    write(tree, {f"frames/{part}/{index}.png": "" for part in range(9) for index in range(10)})
    write(tree, {"a.py": ""})
    with pytest.raises(SnapshotError) as caught:
        snapshot_of(tree, cache)
    text = str(caught.value)
    assert "91 files" in text
    assert "90 files  frames/" in text
    assert text.endswith("    /frames/")


def test_a_walk_through_a_whole_disk_ends(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_listing, "WALK_LIMIT", 20)
    monkeypatch.setattr(limits, "MAX_FILES", 10)
    write(tree, {f"d{part}/{index}": "" for part in range(40) for index in range(5)})
    with pytest.raises(SnapshotError, match="files"):
        snapshot_of(tree, cache)


def test_an_empty_tree_is_valid(tree: Path, cache: Path) -> None:
    for _ in range(2):
        snapshot = snapshot_of(tree, cache)
        assert (snapshot.files, snapshot.size, snapshot.entries) == (0, 0, [])
        assert parse_manifest(snapshot.manifest) == []


def test_a_git_hook_environment_is_ignored(
    repository: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, {".gitignore": "*.log\n", "a.log": "", "a.py": ""})
    git(tmp_path, "init", "-q", "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere/.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "elsewhere/.git/index"))
    assert paths(snapshot_of(repository, cache)) == [".gitignore", "a.py"]
