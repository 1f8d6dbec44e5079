from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest
from trees import git, paths, write

from windlass.model.records import Git
from windlass.packaging import provenance
from windlass.packaging.project_files.git import GitStatus
from windlass.packaging.project_files.project_root import Root
from windlass.packaging.provenance import collect, git_state, installed_packages
from windlass.packaging.snapshot import take_snapshot
from windlass.version import __version__


def test_commit_branch_and_uncommitted_changes_are_recorded(repository: Path) -> None:
    assert git_state(repository) == Git(branch="main")
    write(repository, {"a.py": "a", ".gitignore": "*.log\n"})
    assert git_state(repository) == Git(branch="main", dirty=True)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "first")
    commit = git(repository, "rev-parse", "HEAD").strip()
    assert git_state(repository) == Git(commit=commit, branch="main")
    write(repository, {"a.log": "ignored"})
    assert git_state(repository) == Git(commit=commit, branch="main")
    write(repository, {"a.py": "b"})
    assert git_state(repository) == Git(commit=commit, branch="main", dirty=True)
    git(repository, "checkout", "-q", "--detach")
    git(repository, "checkout", "-q", "a.py")
    assert git_state(repository) == Git(commit=commit)


def test_without_a_repository_or_git_nothing_is_recorded(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert git_state(tree) is None
    assert git_state(tree / "not there") is None
    git(tree, "init", "-q")
    monkeypatch.setenv("PATH", "")
    assert git_state(tree) is None


def test_one_call_to_git_serves_the_snapshot_and_the_record(repository: Path, cache: Path) -> None:
    write(repository, {"a.py": "a", "b.log": "", ".gitignore": "*.log\n"})
    status = GitStatus(str(repository))
    snapshot = take_snapshot(Root(repository, "git"), cache, status=status)
    assert paths(snapshot) == [".gitignore", "a.py"]
    assert status.state() == Git(branch="main", dirty=True)


def test_reading_the_state_does_not_change_the_repository(repository: Path, cache: Path) -> None:
    write(repository, {"a.py": "a"})
    git(repository, "add", "-A")
    (repository / "a.py").touch()
    before = (repository / ".git/index").read_bytes()
    git_state(repository)
    take_snapshot(Root(repository, "git"), cache)
    assert (repository / ".git/index").read_bytes() == before
    assert not (repository / ".git/index.lock").exists()


def test_packages_are_listed_and_cached(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = installed_packages(cache)
    lines = listed.decode().splitlines()
    assert f"pytest=={metadata.version('pytest')}" in lines
    assert lines == sorted(
        lines, key=lambda line: line.partition("==")[0].lower().replace("_", "-")
    )
    monkeypatch.setattr(provenance, "_list_packages", lambda: pytest.fail("listed again"))
    assert installed_packages(cache) == listed
    monkeypatch.undo()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "more")])
    write(tmp_path, {"more/new_one-1.0.dist-info/METADATA": "Name: new_one\nVersion: 1.0\n"})
    assert b"new_one==1.0\n" in installed_packages(cache)


def test_a_damaged_package_list_is_rebuilt(cache: Path) -> None:
    listed = installed_packages(cache)
    (file,) = (cache / "packages").iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    assert installed_packages(cache) == listed


def test_a_record_has_the_user_the_host_and_the_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--name", "odd \udcff"])
    record = collect(Git(commit="abc"), packages="00" * 32, files=3, size=12)
    assert record.user and record.host and record.platform
    assert record.python == ".".join(map(str, sys.version_info[:3]))
    assert record.executable == sys.executable
    assert record.argv == ("train.py", "--name", "odd \ufffd")
    assert (record.windlass, record.git) == (__version__, Git(commit="abc"))
    assert (record.packages, record.tree_files, record.tree_size) == ("00" * 32, 3, 12)


def test_a_repository_in_a_parent_folder_is_not_read(repository: Path) -> None:
    write(repository, {"inside/a.py": ""})
    assert git_state(repository / "inside") is None
