"""A snapshot of a tree of 10,000 files, beside git on the same tree."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from benchmarks.model import Budget, Figure, PeerFigure, figure, time_value
from benchmarks.registry import Bench, benchmark
from benchmarks.samples import alternate
from benchmarks.workshop import Workshop
from benchmarks.yardstick import time_command

_FILES = 10_000
_NOTE = "git also stores the files; Windlass sends new files when the trial is submitted"


@benchmark("snapshot")
def measure_snapshots(bench: Bench) -> Iterator[Figure]:
    """The first of a tree, one with nothing changed, one with a file changed.

    Both sides see the same tree. Git works on a repository of its own beside the tree, so that
    its index is nothing to the tree's own repository, which Windlass asks.
    """
    with Workshop() as shop:
        tree = _Tree(shop)
        yield _beside_git("first", "the first", bench, tree.take_first, tree.add_first, 2)
        tree.take_first()
        tree.add_first()
        yield _beside_git("unchanged", "nothing changed", bench, tree.take, tree.add, 7)
        yield _beside_git(
            "changed",
            "one file changed",
            bench,
            tree.take_changed,
            tree.add_changed,
            7,
        )


def _beside_git(
    name: str,
    title: str,
    bench: Bench,
    ours: Callable[[], float],
    git: Callable[[], float],
    rounds: int,
) -> Figure:
    taken = alternate(rounds, bare=bench.bare, ours=ours, git=git)
    theirs = time_value(taken["git"], taken["bare"])
    return figure(
        f"snapshot.{name}",
        f"snapshot of {_FILES:,} files: {title}",
        time_value(taken["ours"], taken["bare"]),
        Budget(limit=theirs.amount, text="≤ git"),
        (PeerFigure(name="git", title="git add -A && git write-tree", value=theirs),),
        note=_NOTE if name == "first" else "",
    )


def make_tree(shop: Workshop) -> Path:
    """A project of many small files, committed; where it is."""
    root = shop.root / "tree"
    text = "def layer(x):\n    return [value * 2 for value in x]\n" * 20
    for folder in range(100):
        (root / f"part{folder:02}").mkdir(parents=True)
        for file in range(100):
            path = root / f"part{folder:02}" / f"module{file:02}.py"
            path.write_text(f"# {folder} {file}\n{text}")
    path.rename(root / "train.py")  # the last file is the script's own
    for arguments in (
        ("init", "--quiet"),
        ("add", "--all"),
        ("-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "First"),
    ):
        time_command(["git", "-C", root, *arguments], shop.environment, root)
    return root


class _Tree:
    """A committed project of many small files, and operations on it."""

    def __init__(self, shop: Workshop) -> None:
        self._shop = shop
        self._root = make_tree(shop)
        self._cache = shop.root / "cache"
        self._index = shop.root / "git"
        self._versions = count()

    def take(self) -> float:
        """Windlass's snapshot, in its own process, after the imports."""
        with self._shop.script("take_snapshot.py", self._root, self._cache) as script:
            seconds: float = script.answer()
            return seconds

    def take_first(self) -> float:
        shutil.rmtree(self._cache, ignore_errors=True)
        return self.take()

    def add(self) -> float:
        """The same by git: two commands, as a shell would run them."""
        return self._git("add", "-A") + self._git("write-tree")

    def add_first(self) -> float:
        shutil.rmtree(self._index, ignore_errors=True)
        self._git("init", "--quiet")
        return self.add()

    def take_changed(self) -> float:
        self._change()
        return self.take()

    def add_changed(self) -> float:
        self._change()
        return self.add()

    def _change(self) -> None:
        """Write another text of another length into one file."""
        version = next(self._versions)
        (self._root / "part50" / "module50.py").write_text(f"VERSION = {version}\n" * (version + 1))

    def _git(self, *arguments: str) -> float:
        where = [f"--git-dir={self._index}", f"--work-tree={self._root}"]
        return time_command(["git", *where, *arguments], self._shop.environment, self._root)
