"""The version of a checkout comes from git, is cheap, and is the same in all processes."""

from __future__ import annotations

import io
import os
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from windlass.runtimes.worker_zip import package_zip
from windlass.version import __version__

MODULE = Path(__file__).parent.parent / "src" / "windlass" / "version.py"
IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "Ada"), ("EMAIL", "ada@lab.example"))
}


class Checkout:
    """A repository that contains the module."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.module = root / "src" / "windlass" / "version.py"

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.root), *arguments]
        done = subprocess.run(command, env={**os.environ, **IDENTITY}, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    def commit(self) -> str:
        self.git("commit", "--quiet", "--allow-empty", "--message", "change")
        return self.git("rev-parse", "HEAD")[:10]

    def version(self) -> str:
        return str(runpy.run_path(str(self.module))["__version__"])


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    checkout = Checkout(tmp_path / "project")
    checkout.module.parent.mkdir(parents=True)
    shutil.copy(MODULE, checkout.module)
    (checkout.root / ".gitignore").write_text("__pycache__/\n")
    (checkout.root / ".gitattributes").write_text("src/windlass/version.py export-subst\n")
    checkout.git("init", "--quiet", "--initial-branch", "main")
    checkout.git("add", "--all")
    checkout.commit()
    return checkout


@pytest.mark.finding("A15")
def test_every_commit_has_a_version_of_its_own(checkout: Checkout) -> None:
    for number in (2, 3):
        commit = checkout.commit()
        assert checkout.version() == f"0.1.0.dev{number}+g{commit}"
    assert checkout.git("status", "--porcelain") == ""


def test_a_tag_is_a_release_and_the_next_version_follows_it(checkout: Checkout) -> None:
    checkout.version()
    checkout.git("tag", "--annotate", "v0.2.0rc1", "--message", "0.2.0rc1")
    assert checkout.version() == "0.2.0rc1"
    commit = checkout.commit()
    assert checkout.version() == f"0.2.0rc2.dev1+g{commit}"
    checkout.git("tag", "v0.9.9")
    checkout.git("tag", "other")
    assert checkout.version() == "0.9.9"
    commit = checkout.commit()
    assert checkout.version() == f"0.9.10.dev1+g{commit}"


def test_git_is_called_once_for_each_commit(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("packed", "detached", "branch"):
        commit = checkout.commit()
        if path == "packed":
            checkout.git("pack-refs", "--all")
        elif path == "detached":
            checkout.git("checkout", "--quiet", "--detach")
        else:
            checkout.git("checkout", "--quiet", "-b", "topic/one")
        version = checkout.version()
        assert version.endswith(f"+g{commit}")
        with monkeypatch.context() as patch:
            patch.setenv("PATH", "/nowhere")
            assert checkout.version() == version
            shutil.rmtree(checkout.module.parent / "__pycache__")
            assert checkout.version() == f"0.1.0.dev0+g{commit}"  # the commit is known without git


def test_worktrees_have_the_versions_of_their_own_commits(checkout: Checkout) -> None:
    before = checkout.version()
    other = Checkout(checkout.root.parent / "other")
    checkout.git("worktree", "add", "--quiet", "-b", "other", str(other.root))
    assert other.version() == before
    commit = other.commit()
    assert (other.version(), checkout.version()) == (f"0.1.0.dev2+g{commit}", before)


def test_a_hook_of_another_repository_does_not_change_the_version(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Checkout(tmp_path / "elsewhere")
    other.root.mkdir()
    other.git("init", "--quiet")
    other.commit()
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    version = checkout.version()
    monkeypatch.delenv("GIT_DIR")
    assert version.endswith(f"+g{checkout.git('rev-parse', 'HEAD')[:10]}")


def test_source_without_git_takes_the_version_of_its_archive_if_any(
    checkout: Checkout, tmp_path: Path
) -> None:
    commit = checkout.commit()
    for tag, version in ((None, f"0.1.0.dev0+g{commit}"), ("v0.1.0", "0.1.0")):
        if tag:
            checkout.git("tag", tag)
        folder = tmp_path / f"archive-{tag}"
        checkout.git("archive", "--output", f"{folder}.zip", "HEAD")
        shutil.unpack_archive(f"{folder}.zip", folder)
        assert Checkout(folder).version() == version
    shutil.rmtree(checkout.root / ".git")
    assert checkout.version() == "0.1.0.dev0+unknown"


def test_a_shallow_clone_has_the_same_version(checkout: Checkout, tmp_path: Path) -> None:
    checkout.commit()
    clone = Checkout(tmp_path / "clone")
    checkout.git("clone", "--quiet", "--depth=1", f"file://{checkout.root}", str(clone.root))
    assert clone.version() != checkout.version()
    assert clone.version().partition("+")[2] == checkout.version().partition("+")[2]


def test_all_processes_of_this_checkout_have_one_version() -> None:
    command = [sys.executable, "-c", "import windlass; print(windlass.__version__)"]
    assert subprocess.run(command, capture_output=True, text=True).stdout.strip() == __version__


def test_the_package_for_pods_states_the_version_it_was_built_from(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(package_zip())) as archive:
        archive.extractall(tmp_path)
    command = [
        sys.executable,
        "-c",
        "import windlass; print(windlass.__file__, windlass.__version__)",
    ]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    printed = subprocess.run(command, capture_output=True, text=True, env=env).stdout.split()
    assert printed == [str(tmp_path / "windlass" / "__init__.py"), __version__]
