"""Reports exceptions from user code: prints tracebacks as Python would and stores them in files.

The tips for known failures are in `client/resources/trial/failure_tips.py`.
"""

from __future__ import annotations

import os
import sys

from windlass.worker.common.atomic_files import retry_write, write_bytes, write_json
from windlass.worker.common.file_reads import exists
from windlass.worker.common.mask_secrets import mask_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

TEXT_LIMIT = 100_000  # recorded characters of a message or a traceback

_WORKER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Failure:
    """Prints a call's exception to stderr and stores it in files."""

    def __init__(self, attempt_dir: str, launch: Mapping[str, Any], secrets: Sequence[str]) -> None:
        self.attempt_dir = attempt_dir
        self._work = launch["work"]
        self._root = launch["root"]
        self._secrets = secrets
        self._text = ""

    def show(self, error: BaseException) -> None:
        """Print an exception's traceback to stderr, and keep the text for `record`."""
        self._text = self._format(error)
        try:
            sys.stderr.write(self._text)
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            pass  # user code may have closed stderr

    def show_interrupt(self, error: KeyboardInterrupt) -> None:
        """Print a KeyboardInterrupt's traceback, or only its location if Windlass sent SIGINT.

        A stop that Windlass requested needs no traceback, because it is not an error of the
        program.
        """
        if not exists(os.path.join(self.attempt_dir, "stop.json")):
            self.show(error)
            return
        try:
            sys.stderr.write(f"KeyboardInterrupt{self._location(error)}\n")
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            pass  # as in `show`

    def note(self, error: BaseException) -> None:
        """Keep an exception's traceback for `record`, but do not print the traceback."""
        self._text = self._format(error)

    def record(self, error: BaseException, dumps: Callable[[BaseException], bytes]) -> None:
        """Write the error files, including the pickled exception if it can be pickled."""
        try:
            data = dumps(error)
            path = os.path.join(self.attempt_dir, "error.pkl")
            retry_write(lambda: write_bytes(path, data), "the exception")
            pickled = True
        except Exception:  # noqa: BLE001  # pickling runs user code; store only the text
            pickled = False
        self._write(type_name(type(error)), error_message(error), pickled=pickled)

    def record_unpicklable(self, message: str) -> None:
        """Write the error files for a call whose result cannot be pickled."""
        self._record_text("windlass.SerializationError", message)

    def record_unstored(self, error: OSError) -> None:
        """Write the error files for a result that cannot be stored."""
        message = f"The function returned, but its return value cannot be stored: {error}"
        self._record_text(type_name(type(error)), message)

    def _record_text(self, name: str, message: str) -> None:
        self._text = f"{name}: {message}\n"
        try:
            sys.stderr.write(mask_text(self._text, self._secrets))
        except (OSError, ValueError, AttributeError):
            pass  # user code may have closed stderr
        self._write(name, message, pickled=False)

    def _write(self, name: str, message: str, *, pickled: bool) -> None:
        path = os.path.join(self.attempt_dir, "error.json")
        report = {
            "type": name,
            "message": shorten(mask_text(message, self._secrets)),
            "traceback": shorten(mask_text(self._text, self._secrets)),
            "pickled": pickled,
        }
        try:
            retry_write(lambda: write_json(path, report), "the exception")
        except OSError as error:
            sys.stderr.write(f"windlass: the exception could not be recorded: {error}\n")

    def _location(self, error: BaseException) -> str:
        """Return the location of an exception, preferably in the project's own code."""
        import traceback

        _leave_out_own_frames(error)
        frames = traceback.extract_tb(error.__traceback__)
        for frame in reversed(frames):
            for folder in filter(None, (self._work, os.path.realpath(self._work), self._root)):
                if frame.filename.startswith(folder.rstrip("/") + "/"):
                    path = os.path.relpath(frame.filename, folder)
                    return f" at {path}:{frame.lineno} in {frame.name}"
        return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""

    def _format(self, error: BaseException) -> str:
        """Return an exception's traceback without Windlass frames and with the author's paths."""
        import traceback

        _leave_out_own_frames(error)
        self._show_restored_sources(error)
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        if self._root:
            for work in {self._work, os.path.realpath(self._work)}:
                text = text.replace(work + "/", self._root.rstrip("/") + "/")
        return text

    def _show_restored_sources(self, error: BaseException) -> None:
        """Let tracebacks show restored source lines for functions pickled by value."""
        import linecache

        root = self._root.rstrip("/") + "/"
        for exception in _chain(error):
            step = exception.__traceback__
            while step is not None:
                path = step.tb_frame.f_code.co_filename
                if self._root and path.startswith(root) and path not in linecache.cache:
                    lines = linecache.getlines(os.path.join(self._work, path[len(root) :]))
                    if lines:
                        linecache.cache[path] = (sum(map(len, lines)), None, lines, path)
                step = step.tb_next


def type_name(kind: type) -> str:
    """Return a type's name as tracebacks print it.

    >>> type_name(ValueError), type_name(os.DirEntry)
    ('ValueError', 'posix.DirEntry')
    """
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def shorten(text: str, limit: int = TEXT_LIMIT) -> str:
    """Shorten text to about `limit` characters by removing its middle.

    >>> shorten("x" * 20 + "y" * 70, 60)
    'xxxxxxxxxx [70 characters left out] yyyyyyyyyy'
    """
    if len(text) <= limit:
        return text
    kept = max(0, limit - 40) // 2
    middle = f" [{len(text) - 2 * kept} characters left out] "
    return text[:kept] + middle + text[len(text) - kept :]


def error_message(error: BaseException) -> str:
    """Return an exception's text, or a placeholder if its `__str__` raises an error."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # a __str__ of user code may raise any error
        return "<its text cannot be shown>"


def _chain(error: BaseException) -> list[BaseException]:
    """List an exception and its direct and indirect causes, each of them once."""
    chain: list[BaseException] = []
    to_visit: list[BaseException | None] = [error]
    while to_visit:
        exception = to_visit.pop()
        if exception is not None and not any(exception is one for one in chain):
            chain.append(exception)
            to_visit += [exception.__cause__, exception.__context__]
    return chain


def _leave_out_own_frames(error: BaseException) -> None:
    for exception in _chain(error):
        step = exception.__traceback__
        while step is not None and step.tb_frame.f_code.co_filename.startswith(_WORKER):
            step = step.tb_next
        exception.__traceback__ = step
