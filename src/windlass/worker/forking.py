"""Starting attempts by fork from an interpreter that is warm: no start-up, no imports.

The launcher runs no user code and keeps nothing of one request for the next. Each attempt is
a fork of it, the supervisor; the function's process is a fork of that, with an environment,
a working directory, import paths and descriptors of its own, as if it had been started anew.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import signal
import socket
import sys
import time

from windlass.worker import call, supervision
from windlass.worker.family import DETACHED
from windlass.worker.process import import_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# In the environment of the launcher, to be overwritten: the kernel shows the environment a
# process was started with, and a fork is found by its marker like every other process.
MARKER = "WINDLASS_REPLICA"
MARKER_ROOM = 160


def serve(fd: int) -> None:
    """Fork a supervisor for each attempt directory that is named, until nobody asks any more."""
    _warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for a supervisor
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=fd) as asked, asked.makefile("rb") as lines:
        _answer(asked, {"folders": [sys.executable, *sys.path]})
        for line in lines:
            pid = os.fork()
            if pid == 0:
                _supervise(json.loads(line)["attempt"], asked)
            _answer(asked, {"pid": pid})


def call_here(attempt_dir: str, environ: Mapping[str, str]) -> None:
    """In a fork: be the function's process, from its environment to its exit. Never returns."""
    code = 1
    try:
        _close_all_but_standard()
        _mark(environ[MARKER])
        os.environ.clear()
        os.environ.update(environ)
        time.tzset()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        for name in list(sys.modules):
            if name.split(".")[0] == "windlass":
                del sys.modules[name]  # the one that user code imports is its own
        call.run_call(attempt_dir)
        code = 0
    except SystemExit as leaving:
        code = _exit_code(leaving)
    finally:
        os._exit(_finish(code))


def can_call_here(launch: Mapping[str, Any], python: str) -> bool:
    """Whether a fork of this process would be just like a new one for that function.

    Not if it is of another interpreter, or has modules loaded that would be the project's own.
    """
    if launch["executable"]["type"] != "function" or python != sys.executable:
        return False
    loaded = {name for name in sys.modules if "." not in name}
    return not any(loaded & _module_names(path) for path in import_paths(launch))


def _warm_up() -> None:
    try:
        import cloudpickle  # noqa: F401  # what nearly every payload needs
    except ImportError:
        pass
    import windlass.worker.environment
    import windlass.worker.volumes  # noqa: F401  # loaded here once, not in every fork

    ctypes.CDLL(None)
    gc.collect()
    gc.freeze()  # what is here stays, and shared pages stay shared


def _supervise(attempt_dir: str, asked: socket.socket) -> None:
    """In a fork: be the supervisor of an attempt. Never returns."""
    code = 1
    try:
        asked.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        errors = os.open(
            os.path.join(attempt_dir, "supervisor.err"),
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
            0o600,
        )
        os.dup2(errors, 2)
        os.close(errors)
        supervision.supervise(attempt_dir, is_warm=True)
        code = 0
    except BaseException:  # noqa: BLE001  # told in supervisor.err, as a new process would
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _answer(asked: socket.socket, message: object) -> None:
    asked.sendall(json.dumps(message).encode() + b"\n")


def _mark(marker: str) -> None:
    """Write the marker over its place in the environment this process was started with.

    That of the launcher also says that it is no trial's own, which this process is.
    """
    if sys.platform == "linux" and len(marker) <= MARKER_ROOM:
        _overwrite(MARKER, marker.encode().ljust(MARKER_ROOM, b"\0"))
        _overwrite(DETACHED, b"0")


def _overwrite(name: str, text: bytes) -> None:
    if len(os.environ.get(name, "")) != len(text):
        return
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    place = libc.getenv(name.encode())
    if place:
        ctypes.memmove(place, text, len(text))


def _close_all_but_standard() -> None:
    """Nothing of the supervisor's stays open here: least of all its lock."""
    try:
        fds = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        os.closerange(3, 4096)
        return
    for fd in fds:
        if fd > 2:
            try:
                os.close(fd)
            except OSError:
                pass  # the one that listed them


def _module_names(folder: str) -> set[str]:
    try:
        return {name.partition(".")[0] for name in os.listdir(folder)}
    except OSError:
        return set()


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    print(leaving.code, file=sys.stderr)  # noqa: T201  # as Python does
    return 1


def _finish(code: int) -> int:
    """What Python does at its end: wait for threads, run the exit handlers, flush."""
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            code = code or 120  # the code Python itself leaves with then
    return code
