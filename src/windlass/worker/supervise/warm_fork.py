"""Start attempts by a fork of a warm interpreter, without start-up time or imports.

The launcher runs no user code and keeps no state between requests. Each supervisor is a fork of the
launcher, and the function's process is a fork of its supervisor, with its own environment, working
directory, import paths and descriptors, like a newly started process. The launcher forks one such
pair ahead of time.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import json
import os
import select
import signal
import socket
import sys
import time

from windlass.worker.common.process_tree import DETACHED, MARKER, MARKER_ROOM
from windlass.worker.program import call as program_call
from windlass.worker.supervise import attempt as supervised_attempt
from windlass.worker.supervise.child_process import Fork, StartError
from windlass.worker.supervise.signals import SignalPipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

_LULL = 0.005


def serve(fd: int) -> None:
    """Fork a supervisor for each attempt directory that is named, until nobody asks any more."""
    _warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for a supervisor
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    spare: _Spare | None = None
    with socket.socket(fileno=fd) as requests, requests.makefile("rb") as lines:
        _answer(requests, {"folders": [sys.executable, *sys.path]})
        while True:
            # One request is answered before the next is sent: nothing waits in the buffer.
            if spare is None and not select.select([requests], [], [], _LULL)[0]:
                spare = _Spare(fd)
            line = lines.readline()
            if not line:
                return
            attempt_dir = json.loads(line)["attempt"]
            pid = spare.take(attempt_dir) if spare is not None else None
            spare = None
            if pid is None:
                pid = os.fork()
                if pid == 0:
                    os.close(fd)
                    _supervise(attempt_dir)
            _answer(requests, {"pid": pid})


class _Spare:
    """A supervisor that is forked, and has forked, before anyone asks for it.

    Made in a lull: when many are asked for at once, nothing is gained by making them ahead.
    """

    def __init__(self, requests_fd: int) -> None:
        end, self._pipe = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(requests_fd)
            os.close(self._pipe)
            _wait_to_supervise(end)
        os.close(end)

    def take(self, attempt_dir: str) -> int | None:
        """Give it an attempt; its pid, or none if it is not there any more."""
        try:
            with open(self._pipe, "wb") as pipe:
                pipe.write(os.fsencode(attempt_dir))
        except BrokenPipeError:
            return None
        return self._pid


def call_here(attempt_dir: str, environ: Mapping[str, str]) -> None:
    """In a fork: be the function's process, from its environment to its exit. Never returns."""
    code, preloaded = 1, frozenset(sys.modules)
    try:
        _close_all_but_standard()
        _mark(environ[MARKER])
        os.environ.clear()
        os.environ.update(environ)
        time.tzset()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)  # as Python does
        _start_clock_of_logging()
        for name in list(sys.modules):
            if name.split(".")[0] == "windlass":
                del sys.modules[name]  # the one that user code imports is its own
        preloaded = frozenset(sys.modules)
        program_call.run_call(attempt_dir)
        code = 0
    except SystemExit as leaving:
        code = _exit_code(leaving)
    finally:
        os._exit(_finish(code, preloaded))


def _warm_up() -> None:
    try:
        import cloudpickle  # noqa: F401  # what nearly every payload needs
    except ImportError:
        pass
    import windlass.worker.checkpoints.records
    import windlass.worker.supervise.package_environment
    import windlass.worker.supervise.ports
    import windlass.worker.supervise.volumes  # noqa: F401  # loaded here once, not in every fork

    ctypes.CDLL(None)
    gc.collect()
    gc.freeze()  # what is here stays, and shared pages stay shared


def _wait_to_supervise(end: int) -> None:
    """In a fork: have all ready to supervise an attempt, and wait for one. Never returns."""
    fork: Fork | None = None
    try:
        supervised_attempt.leave_session()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signals = SignalPipe()
        # Who gives an attempt to one that is gone learns of it by the pipe, which is broken then.
        fork = Fork(closed=(end,))
        with open(end, "rb") as pipe:
            attempt_dir = os.fsdecode(pipe.read())
    except (StartError, OSError):
        os._exit(1)
    if not attempt_dir:
        os._exit(0)  # nobody asks any more
    _supervise(attempt_dir, signals, fork)


def _supervise(
    attempt_dir: str, signals: SignalPipe | None = None, fork: Fork | None = None
) -> None:
    """In a fork: be the supervisor of an attempt. Never returns."""
    code = 1
    try:
        if signals is None:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        errors = os.open(
            os.path.join(attempt_dir, "supervisor.err"),
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
            0o600,
        )
        os.dup2(errors, 2)
        os.close(errors)
        supervised_attempt.supervise(attempt_dir, is_warm=True, signals=signals, fork=fork)
        code = 0
    except BaseException:  # noqa: BLE001  # told in supervisor.err, as a new process would
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _answer(requests: socket.socket, message: object) -> None:
    requests.sendall(json.dumps(message).encode() + b"\n")


def _start_clock_of_logging() -> None:
    """Its records tell how long the program has run: since now, not since the launcher began."""
    logging: Any = sys.modules.get("logging")  # loaded along with cloudpickle
    if logging is not None:
        is_whole = isinstance(logging._startTime, int)
        logging._startTime = time.time_ns() if is_whole else time.time()


def _mark(marker: str) -> None:
    """Show the marker in the environment this process was started with, and be attached."""
    if sys.platform == "linux" and len(os.environ.get(MARKER, "")) == MARKER_ROOM:
        _write_over(MARKER, marker)
        _write_over(DETACHED, "0")


def _write_over(name: str, text: str) -> None:
    """Put a text in the very place of a variable's value, if there is room for it."""
    room, value = len(os.environ.get(name, "")), text.encode()
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    place = libc.getenv(name.encode())
    if place and len(value) <= room:
        ctypes.memmove(place, value.ljust(room, b"\0"), room)


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


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    print(leaving.code, file=sys.stderr)  # noqa: T201  # as Python does
    return 1


def _finish(code: int, preloaded: Collection[str]) -> int:
    """Finish like Python: wait for threads, run exit handlers and finalizers, flush."""
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()
    atexit._run_exitfuncs()
    _let_go(preloaded)
    for stream in (sys.stdout, sys.stderr):
        if stream is None or getattr(stream, "closed", False):
            continue
        try:
            stream.flush()
        except Exception:  # noqa: BLE001  # user code may have put anything there
            code = code or 120  # the code Python itself leaves with then
    ctypes.CDLL(None).fflush(None)  # what C code printed
    return code


def _let_go(preloaded: Collection[str]) -> None:
    """Have open files written and finalizers run.

    Python takes everything apart for it, which would take longer than all else here. What the
    launcher had loaded has nothing to write: what is frozen is not among these objects.
    """
    for candidate in reversed(gc.get_objects()):  # a file that writes to another was made after it
        if issubclass(type(candidate), io.IOBase):
            try:
                candidate.flush()
            except Exception:  # noqa: BLE001, S110  # it is closed, or cannot be written
                pass
    for name in sys.modules.keys() - preloaded:
        sys.modules.pop(name, None)
    gc.collect()
