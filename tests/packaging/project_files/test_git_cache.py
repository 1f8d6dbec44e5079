"""Results of git are cached exactly as long as git would give the same results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from trees import git, refuse_to_ask_git, settle, write

from windlass.model.records import Git
from windlass.packaging.project_files.git import GitStatus
from windlass.packaging.project_files.project_root import Root
from windlass.packaging.provenance import git_state
from windlass.packaging.snapshot import take_snapshot


def state_of(folder: Path, cache: Path) -> Git | None:
    """The git state as a submission reads it."""
    status = GitStatus(str(folder))
    take_snapshot(Root(folder, "git"), cache, status=status)
    return status.state()


@pytest.fixture
def committed(repository: Path) -> Path:
    write(repository, {"a.py": "1", "p/b.py": "2", ".gitignore": "*.log\n/out/\n/.venv/bin\n"})
    write(repository, {"run.log": "", "out/x": ""})
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "first")
    return repository


@pytest.mark.parametrize("is_dirty", [False, True])
def test_git_is_called_once_for_an_unchanged_tree(
    committed: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, is_dirty: bool
) -> None:
    if is_dirty:
        write(committed, {"a.py": "2"})
    settle(committed, cache)
    tree_state = state_of(committed, cache)
    assert tree_state == git_state(committed)
    assert tree_state is not None
    assert tree_state.dirty is is_dirty
    refuse_to_ask_git(monkeypatch)
    assert state_of(committed, cache) == tree_state


@pytest.mark.thorough
def test_git_is_called_again_after_any_change(committed: Path, cache: Path) -> None:
    tree = committed

    def environment_that_git_ignores() -> None:
        write(tree, {".venv/pyvenv.cfg": "", ".venv/lib.py": "", ".venv/.gitignore": "*\n"})

    def nested() -> None:
        write(tree, {"inner/x.py": "1"})
        git(tree / "inner", "init", "-q")
        git(tree / "inner", "add", "-A")
        git(tree / "inner", "commit", "-qm", "inner")
        git(tree, "add", "inner")
        git(tree, "commit", "-qm", "nested")

    steps: list[Callable[[], object]] = [
        lambda: write(tree, {"a.py": "3"}),  # same size
        lambda: write(tree, {"a.py": "1"}),  # its old content
        lambda: (tree / "a.py").chmod(0o755),
        lambda: git(tree, "add", "-A"),
        lambda: git(tree, "commit", "-qm", "second"),
        lambda: git(tree, "commit", "-qm", "third", "--allow-empty"),
        lambda: git(tree, "pack-refs", "--all"),
        lambda: git(tree, "update-ref", "refs/heads/main", "HEAD~1"),
        lambda: git(tree, "branch", "twin"),
        lambda: git(tree, "symbolic-ref", "HEAD", "refs/heads/twin"),
        lambda: git(tree, "checkout", "-q", "-b", "topic/one"),
        lambda: git(tree, "checkout", "-q", "--detach"),
        lambda: git(tree, "update-ref", "--no-deref", "HEAD", "HEAD~1"),
        lambda: git(tree, "checkout", "-q", "-f", "main"),
        lambda: write(tree, {"new.py": ""}),
        lambda: write(tree, {".git/info/exclude": "new.py\n"}),
        lambda: (tree / ".git/info/exclude").unlink(),
        lambda: (tree / "new.py").unlink(),
        lambda: write(tree, {"more.log": "", "out/y": ""}),
        lambda: git(tree, "add", "-f", "out/y"),
        lambda: git(tree, "commit", "-qm", "what is ignored"),
        lambda: write(tree, {"out/y": "changed"}),
        lambda: git(tree, "rm", "-qf", "out/y"),
        lambda: git(tree, "commit", "-qm", "not any more"),
        environment_that_git_ignores,
        lambda: write(tree, {".venv/.gitignore": "*.cfg\n"}),
        lambda: write(tree, {".venv/.gitignore": "*\n"}),
        lambda: write(tree, {"p/__pycache__/b.pyc": ""}),
        lambda: git(tree, "config", "core.fileMode", "false"),
        lambda: (tree / "p/b.py").chmod(0o755),
        lambda: git(tree, "config", "core.fileMode", "true"),
        lambda: git(tree, "commit", "-qam", "modes"),
        lambda: (tree / "p/b.py").unlink(),
        lambda: git(tree, "checkout", "-q", "p/b.py"),
        lambda: write(tree, {".windlassignore": "/p/\n"}),
        lambda: git(tree, "add", "-A"),
        lambda: git(tree, "commit", "-qm", "ours"),
        lambda: write(tree, {"p/b.py": "not packaged, but tracked"}),
        lambda: git(tree, "rm", "-qf", ".windlassignore", "p/b.py"),
        lambda: git(tree, "commit", "-qm", "less"),
        nested,
        lambda: write(tree, {"inner/x.py": "2"}),
        lambda: git(tree / "inner", "commit", "-qam", "more"),
        lambda: git(tree, "symbolic-ref", "HEAD", "refs/heads/nothing/yet"),
    ]
    for number, step in enumerate(steps):
        settle(tree, cache)
        state_of(tree, cache)
        step()
        for _ in range(2):
            assert state_of(tree, cache) == git_state(tree), f"step {number}"


def test_an_older_result_is_not_cached(committed: Path, cache: Path) -> None:
    status = GitStatus(str(committed))
    status.begin()
    assert status.ignored() is not None  # git has answered
    write(committed, {"a.py": "5"})
    settle(committed, cache)
    take_snapshot(Root(committed, "git"), cache, status=status)
    assert status.state() == Git(commit=git(committed, "rev-parse", "HEAD").strip(), branch="main")
    assert state_of(committed, cache) == git_state(committed)


def test_settings_from_variables_count(
    committed: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (committed / "a.py").chmod(0o755)
    settle(committed, cache)
    state = state_of(committed, cache)
    assert state is not None
    assert state.dirty
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fileMode")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "false")
    assert state_of(committed, cache) == git_state(committed)
    assert git_state(committed) != state


def test_a_separate_worktree_has_its_own_head(committed: Path, cache: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(committed, "worktree", "add", "-q", "-b", "other", str(other))
    settle(other, cache)
    for _ in range(2):
        assert state_of(other, cache) == git_state(other)
    git(other, "commit", "-qm", "empty", "--allow-empty")
    assert state_of(other, cache) == git_state(other)


@pytest.mark.parametrize("damage", [b"", b"\x93", b"\xff" * 64])
def test_a_damaged_cache_is_ignored(committed: Path, cache: Path, damage: bytes) -> None:
    settle(committed, cache)
    tree_state = state_of(committed, cache)
    [file] = (cache / "trees").glob("*.git")
    file.write_bytes(damage)
    assert state_of(committed, cache) == tree_state
    assert file.read_bytes() != damage
