"""Functions that write outputs. Quick to import, because every trial imports them."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import windlass as wl


def _wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)


@wl.run(cpus=0.05)
def leave(files: dict[str, str], gate: str = "") -> str:
    """Write files, wait, and return the folder."""
    for name, text in files.items():
        path = wl.output_dir() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if gate:
        _wait_for(gate)
    return str(wl.output_dir())


@wl.run(cpus=0.05, retries=1)
def leave_and_die_once() -> list[str]:
    """Write a file and die. In the next attempt, return the files that exist."""
    mark = wl.output_dir() / "first"
    if not mark.exists():
        mark.write_text("by the first attempt")
        os.abort()
    return sorted(path.name for path in wl.output_dir().iterdir())


@wl.run(cpus=0.05, replicas=2)
def leave_by_rank() -> None:
    """Write a file in every replica."""
    (wl.output_dir() / "rank.txt").write_text(str(wl.rank()))
    (wl.tensorboard_dir() / "events.out.tfevents.1").write_text(f"events of {wl.rank()}")


@wl.run(cpus=0.05)
def leave_odd(secret: str) -> None:
    """Write unusual kinds of files."""
    top = wl.output_dir()
    (top / "plain").write_text("plain")
    (top / "folder" / "empty").mkdir(parents=True)
    (top / "folder" / "inner").write_text("inner")
    os.mkfifo(top / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    os.chdir(top)  # a socket's path must be short
    listening.bind("socket")
    (top / "link-in").symlink_to("folder/inner")
    (top / "link-to-folder").symlink_to("folder")
    (top / "link-out").symlink_to(secret)
    (top / "folder-out").symlink_to(os.path.dirname(secret))
    (top / "loop").symlink_to("loop")
    (top / "up").symlink_to("..")
    (top / "nowhere").symlink_to("not-there")
    (top / "to-pipe").symlink_to("pipe")
    for name in (b"not-utf8-\xff", b"new\nline", b"-dash", b"'\"$(x)", b"*[a]?", "café".encode()):
        Path(os.fsdecode(os.fsencode(top) + b"/" + name)).write_bytes(name)
    for _ in range(30):  # deeper than a path may be long
        os.mkdir("e" * 200)
        os.chdir("e" * 200)


@wl.run(cpus=0.05)
def leave_many(count: int) -> None:
    """Write many small files."""
    for number in range(count):
        folder = wl.output_dir() / f"{number % 7}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number:05}.txt").write_text(str(number))


@wl.run(cpus=0.05)
def leave_large(size: int) -> None:
    """Write a sparse file with marks at its ends."""
    with open(wl.output_dir() / "large", "wb") as file:
        file.write(b"begin")
        file.seek(size - 3)
        file.write(b"end")
