"""Scans the files below a path to be saved, and detects changes during the save."""

from __future__ import annotations

import os
import stat
import time

from windlass.worker.common.errors import changed, invalid, no_such_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_TICK = 0.05  # seconds; file times advance at least this often


def changed_while_saved(path: str) -> Exception:
    """Return the error for a path that changed while it was being saved."""
    return changed(
        f"{path} changed while it was being saved. Nothing was stored.",
        "Save it when no program writes to it, or save a copy.",
    )


class ScannedFile:
    """A file or folder to save, with its status at the time of the scan."""

    __slots__ = ("path", "relative_path", "seen")

    def __init__(self, relative_path: str, path: str, seen: os.stat_result) -> None:
        self.relative_path = relative_path  # the path relative to the saved folder
        self.path = path
        self.seen = seen

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.seen.st_mode)

    @property
    def mode(self) -> str:
        """The file's mode in a manifest, such as `x` for an executable file."""
        return "x" if self.seen.st_mode & stat.S_IXUSR else "f"

    @property
    def fingerprint(self) -> tuple[int, ...]:
        """Return values that change when the file is written or replaced.

        For a folder, the values change when its entries change.
        """
        seen = self.seen
        if self.is_folder:
            return ()
        return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def gather(path: str, besides: str = "") -> list[ScannedFile]:
    """Return the files and empty folders at or below a path, sorted by relative path.

    Links are followed, and their targets are saved as files, because training can write to them
    again. Broken links, links to a parent folder, and the folder `besides` are left out.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> os.mkdir(os.path.join(folder, "empty"))
    >>> [(file.relative_path, file.is_folder) for file in gather(folder)]
    [('empty', True)]
    """
    try:
        seen = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        where = "" if os.path.isabs(path) else f" (in {os.getcwd()})"
        raise no_such_file(
            f"There is no file or folder {path!r} to save{where}.",
            "Write it before you call this function.",
        ) from None
    if not stat.S_ISDIR(seen.st_mode):
        return [_file(os.path.basename(os.path.abspath(path)), path, seen)]
    files = list(_below(path, "", [os.path.realpath(path)], os.path.realpath(besides)))
    return sorted(files, key=lambda file: file.relative_path)


def is_as_it_was(path: str, before: list[ScannedFile], besides: str = "") -> bool:
    """Return whether the files at or below a path are still the same as in `before`.

    A changed, new or missing file makes the result False.
    """
    try:
        now = gather(path, besides)
    except OSError:
        return False
    return [(file.relative_path, file.fingerprint) for file in now] == [
        (file.relative_path, file.fingerprint) for file in before
    ]


def wait_for_the_clock(files: list[ScannedFile]) -> None:
    """Wait until any new write to one of the files would change its modification time.

    File times advance in ticks of a few milliseconds, so two writes in one tick look like one. Only
    files that were just written require waiting.
    """
    newest = max((file.seen.st_mtime_ns for file in files), default=0)
    give_up = time.monotonic() + _LONGEST_TICK
    while _file_time() <= newest and time.monotonic() < give_up:
        time.sleep(0.001)  # the kernel does not report the length of a tick


def _file_time() -> int:
    # the clock that the kernel uses for file times
    coarse = getattr(time, "CLOCK_REALTIME_COARSE", None)
    return time.time_ns() if coarse is None else time.clock_gettime_ns(coarse)


def _below(
    folder: str, relative_path: str, around: list[str], besides: str
) -> Iterator[ScannedFile]:
    is_empty = True
    with os.scandir(folder) as entries:
        listed = list(entries)
    for entry in listed:
        inner = f"{relative_path}/{entry.name}" if relative_path else entry.name
        try:
            seen = entry.stat()
        except OSError:
            if entry.is_symlink():
                continue  # a broken link
            raise changed_while_saved(entry.path) from None
        if not stat.S_ISDIR(seen.st_mode):
            yield _file(inner, entry.path, seen)
        else:
            real = os.path.realpath(entry.path)
            if real == besides or (entry.is_symlink() and real in around):
                continue
            if entry.is_symlink() and any(_is_in(other, real) for other in (*around, besides)):
                continue
            yield from _below(entry.path, inner, [*around, real], besides)
        is_empty = False
    if is_empty and relative_path:
        yield ScannedFile(relative_path, folder, os.stat(folder))


def _is_in(path: str, folder: str) -> bool:
    return f"{path}{os.sep}".startswith(f"{folder.rstrip(os.sep)}{os.sep}")


def _file(relative_path: str, path: str, seen: os.stat_result) -> ScannedFile:
    if not stat.S_ISREG(seen.st_mode):
        raise invalid(
            f"{path} is neither a file nor a folder, so it cannot be saved.",
            "Pipes, sockets and devices have no content to save. Save a folder without it.",
        )
    return ScannedFile(relative_path, path, seen)
