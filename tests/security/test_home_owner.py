"""A home that other users can change is refused before anything in it is read or written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from forged_server import OTHER_USER, forged_server

import windlass as wl
from harness import BIN, Project, stop_server
from windlass.directory_owner import check_private
from windlass.version import __version__
from windlass.worker.common.atomic_files import take_lock

pytestmark = pytest.mark.finding("A6")

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
DOUBLE = """
    import windlass as wl


    @wl.run(cpus=0.1, secrets={"KEY": "hush"})
    def double(number):
        return 2 * number


    print(double(21))
"""


@as_root
def test_a_home_that_another_user_has_planted_gets_no_secret_and_runs_no_code(
    project: Project, tmp_path: Path
) -> None:
    project.write("double.py", DOUBLE)
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True, mode=0o777)
    socket = str(home / "run" / "server.sock")
    with forged_server(tmp_path, socket) as forged:
        described = {"url": "http://127.0.0.1:1", "socket": socket, "version": __version__}
        (home / "server.json").write_text(json.dumps(described))
        (home / "token").write_text("planted")
        lock = take_lock(str(home / "server.lock"))
        assert lock is not None
        for path in (home, *home.rglob("*")):
            os.chown(path, OTHER_USER, OTHER_USER)
        before = listing(home)
        for command in (["double.py"], [BIN / "windlass", "ls"], [BIN / "windlass", "doctor"]):
            run = project.run if len(command) > 1 else project.python
            done = run(*command, env={"WINDLASS_HOME": str(home)})
            assert done.returncode == 1
            output = done.stdout + done.stderr
            assert f"The home {home} is not safe to use. It belongs to 'nobody'" in output
            assert "Set WINDLASS_HOME to a directory of yours." in output
        assert forged.received == b""
        forged.check_gained_nothing("hush")
        os.close(lock)
    assert listing(home) == before


def listing(folder: Path) -> list[tuple[str, int, int]]:
    """Return each path in a folder, with its size and time."""
    statuses = ((str(path), path.lstat()) for path in (folder, *sorted(folder.rglob("*"))))
    return [(path, status.st_size, status.st_mtime_ns) for path, status in statuses]


def open_home(home: Path) -> Path:
    home.mkdir()
    (home / "server.json").touch()
    home.chmod(0o777)
    return home


def open_parent(home: Path) -> Path:
    home.mkdir()
    home.parent.chmod(0o777)
    return home.parent


def open_group(home: Path) -> Path:
    home.mkdir()
    os.chown(home.parent, -1, 12345) if os.getuid() == 0 else None
    home.parent.chmod(0o775 if os.getuid() == 0 else 0o757)
    return home.parent


def open_way_of_a_link(home: Path) -> Path:
    real = home.parent / "open" / "real"
    real.mkdir(parents=True)
    real.parent.chmod(0o777)
    home.symlink_to(real)
    return real.parent


def open_folder_of_a_missing_home(home: Path) -> Path:
    home.parent.chmod(0o777)
    return home.parent


@pytest.mark.parametrize(
    "spoil",
    [
        open_home,
        open_parent,
        open_group,
        open_way_of_a_link,
        open_folder_of_a_missing_home,
    ],
)
def test_a_home_that_others_can_write_to_or_replace_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], Path]
) -> None:
    home = tmp_path / "mine" / "home"
    home.parent.mkdir(mode=0o755)
    monkeypatch.setenv("WINDLASS_HOME", str(home))
    culprit = spoil(home)
    with pytest.raises(wl.ServerError, match="not safe to use") as refusal:
        wl.Client().server_info()
    assert str(culprit) in str(refusal.value)
    assert f"chmod go-w {culprit}" in (refusal.value.hint or "")
    assert not (home / "server.log").exists()
    culprit.chmod(0o755)
    try:
        assert wl.Client().server_info().home == str(home)
    finally:
        stop_server(home)


@as_root
def test_a_parent_of_another_user_is_refused_unless_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = tmp_path / "theirs"
    parent.mkdir()
    os.chown(parent, OTHER_USER, -1)
    with pytest.raises(wl.ServerError, match="belongs to 'nobody', who could replace"):
        check_private(str(parent / "home"))
    monkeypatch.setenv("WINDLASS_TRUSTED_PARENT", str(parent))
    check_private(str(parent / "home"))
    with pytest.raises(wl.ServerError):
        check_private(str(parent))  # the home itself is always checked


@as_root
def test_a_link_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "mine")
    check_private(str(link))
    os.chown(link, OTHER_USER, -1, follow_symlinks=False)
    with pytest.raises(wl.ServerError, match="belongs to 'nobody'"):
        check_private(str(link))


def test_a_shared_folder_with_the_sticky_bit_and_an_empty_open_home_are_usable(
    tmp_path: Path,
) -> None:
    shared = tmp_path / "shared"
    home = shared / "home"
    home.mkdir(parents=True)
    shared.chmod(0o1777)
    home.chmod(0o777)
    check_private(str(home))
    assert home.stat().st_mode & 0o777 == 0o700, "it was empty, and is private now"
