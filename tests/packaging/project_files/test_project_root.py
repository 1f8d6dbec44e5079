from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest
from trees import git, paths, write

from windlass.packaging.project_files import project_root
from windlass.packaging.project_files.project_root import (
    Root,
    find_root,
    loaded_files,
    project_name,
)
from windlass.packaging.snapshot import take_snapshot


def test_the_root_is_the_repository_around_the_script(repository: Path) -> None:
    write(repository, {"a/b/train.py": "", "a/pyproject.toml": ""})
    script = repository / "a/b/train.py"
    assert find_root(script=script) == Root(repository, "git", script)


def test_a_worktree_whose_git_is_a_file_is_a_root(repository: Path, tmp_path: Path) -> None:
    write(repository, {"train.py": ""})
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "first")
    git(repository, "worktree", "add", "-q", str(tmp_path / "other"))
    root = find_root(script=tmp_path / "other/train.py")
    assert (root.path, root.kind) == (tmp_path / "other", "git")


@pytest.mark.finding("U10")
def test_a_project_is_named_after_its_repository_or_its_folder(
    repository: Path, tree: Path, tmp_path: Path
) -> None:
    write(repository, {"a/train.py": ""})
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "first")
    git(repository, "worktree", "add", "-q", str(tmp_path / "other"))
    named = [find_root(script=folder / "a/train.py") for folder in (repository, tmp_path / "other")]
    assert [project_name(root) for root in named] == [repository.name] * 2
    assert project_name(Root(tree, "folder")) == tree.name
    odd = tmp_path / "od\nd \udcff "
    assert project_name(Root(odd, "pyproject")) == "od?d \ufffd"
    assert project_name(Root(Path("/home/ada"), "loaded")) == "default"


def test_without_git_the_root_is_the_nearest_pyproject_then_the_folder_of_the_script(
    tree: Path,
) -> None:
    write(tree, {"pyproject.toml": "", "src/p/train.py": "", "x/y/run.py": ""})
    assert find_root(script=tree / "src/p/train.py").kind == "pyproject"
    assert find_root(script=tree / "src/p/train.py").path == tree
    (tree / "pyproject.toml").unlink()
    root = find_root(script=tree / "x/y/run.py")
    assert (root.path, root.kind) == (tree / "x/y", "folder")


def test_without_a_script_the_search_starts_in_the_working_directory(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree)
    assert find_root() == Root(tree, "folder")
    assert find_root(tree.parent).path == tree.parent


def test_a_console_script_of_the_interpreter_is_not_a_project(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree)
    installed = Path(sysconfig.get_path("purelib"), "pytest/__main__.py")
    assert find_root(script=installed).path == tree
    assert find_root(script=Path(sys.prefix, "bin", "pytest")).path == tree


def test_a_home_directory_is_never_a_project(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    write(home, {"train.py": "import steps_of_home", "steps_of_home.py": "", "diary.txt": "no"})
    monkeypatch.syspath_prepend(str(home))
    __import__("steps_of_home")
    root = find_root(script=home / "train.py")
    assert root.kind == "loaded"
    assert paths(take_snapshot(root, cache)) == ["steps_of_home.py", "train.py"]
    monkeypatch.chdir(home)
    assert find_root().kind == "loaded"


def test_a_repository_in_the_home_directory_is_skipped(tmp_path: Path) -> None:
    home = tmp_path / "home"
    git(home, "init", "-q")
    write(home, {"project/train.py": "", "train.py": ""})
    root = find_root(script=home / "project/train.py")
    assert (root.path, root.kind) == (home / "project", "folder")
    assert find_root(script=home / "train.py").kind == "loaded"


@pytest.mark.parametrize("folder", ["/", "/tmp"])
def test_the_root_and_the_temporary_directory_are_never_projects(folder: str) -> None:
    assert find_root(Path(folder)).kind == "loaded"


def test_loaded_files_exclude_installed_packages() -> None:
    files = loaded_files(Root(Path("/"), "loaded"))
    assert Path(project_root.__file__).as_posix().lstrip("/") in files
    assert os.__file__.lstrip("/") not in files
    assert not [file for file in files if "site-packages" in file]
