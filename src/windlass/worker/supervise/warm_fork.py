"""Starts attempts by forking a warm interpreter, which saves start-up time and imports.

The launcher runs no user code and keeps no state between requests. Each supervisor is a fork of the
launcher, and the function's process is a fork of the supervisor. Like a newly started process, it
has its own environment, working directory, import paths and descriptors. The launcher always forks
one such pair of processes in advance.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import sys
import time

from windlass.worker.common.file_reads import retried
from windlass.worker.common.process_tree import DETACHED, MARKER, MARKER_ROOM
from windlass.worker.program import call as program_call
from windlass.worker.supervise import attempt as supervised_attempt
from windlass.worker.supervise.child_process import FAULT_HANDLER, Fork, StartError
from windlass.worker.supervise.signals import SignalPipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

_LULL = 0.005
_INTERRUPTED = 130  # the exit code after an unhandled KeyboardInterrupt
_public: dict[str, Any] = {}  # the modules that `import windlass` loads in user code, by name


def serve(fd: int) -> None:
    """Fork a supervisor for each requested attempt directory until the socket is closed."""
    # the system reaps supervisors, because the launcher does not wait for them
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    spare: _Spare | None = None
    with socket.socket(fileno=fd) as requests, requests.makefile("rb") as lines:
        _answer(requests, {"folders": [sys.executable, *sys.path]})
        while True:
            # A client waits for each response before it sends another request, so at most one is
            # buffered.
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
    """A supervisor and a fork for the user's process, both created before a request needs them.

    The launcher creates them while it is idle. Under load, creating them in advance would save no
    time.
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
        """Pass an attempt to the spare supervisor.

        Return the supervisor's pid, or None if it has exited.
        """
        try:
            with open(self._pipe, "wb") as pipe:
                pipe.write(os.fsencode(attempt_dir))
            # If the supervisor has just been killed, its forked process may still hold the pipe
            # open.
            os.kill(self._pid, 0)
        except (BrokenPipeError, ProcessLookupError):
            return None
        return self._pid


def call_here(attempt_dir: str, environ: Mapping[str, str]) -> None:
    """In a fork, act as the function's process until it exits. Never return."""
    code, preloaded = 1, frozenset(sys.modules)
    try:
        _close_all_but_standard()
        _mark(environ[MARKER])
        os.environ.clear()
        os.environ.update(environ)
        time.tzset()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)  # Python's default
        _start_clock_of_logging()
        if environ.get(FAULT_HANDLER):  # Python reads it only when an interpreter starts
            faulthandler.enable(2)
        for name in list(sys.modules):
            if _is_of_windlass(name):
                del sys.modules[name]  # user code imports a separate package
        preloaded = frozenset(sys.modules)
        program_call.run_call(attempt_dir, _public)
        code = 0
    except SystemExit as leaving:
        code = _exit_code(leaving)
    except KeyboardInterrupt:  # before the function began or after it returned
        code = _INTERRUPTED
    except BaseException:  # noqa: BLE001  # printed to the trial's log
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(_finish(code, preloaded))


def warm_up() -> None:
    """Import what nearly every attempt needs, before the first fork."""
    try:
        import cloudpickle  # noqa: F401  # nearly every payload needs it
    except ImportError:
        pass
    import hashlib  # noqa: F401  # to verify the code

    import windlass.worker.checkpoints.records
    import windlass.worker.supervise.package_environment
    import windlass.worker.supervise.ports
    import windlass.worker.supervise.volumes  # noqa: F401  # loaded once, not in every fork

    ctypes.CDLL(None)
    _load_public_package()
    gc.collect()
    gc.freeze()  # keeps shared memory pages shared


def _load_public_package() -> None:
    """Import the package that user code imports, because scripts that run again import it first.

    The launcher's own modules belong to a separate package with the same name.
    """
    own = {name: module for name, module in sys.modules.items() if _is_of_windlass(name)}
    for name in own:
        del sys.modules[name]
    try:
        importlib.import_module("windlass.authoring.public.run_decorator")
        loaded = {name: module for name, module in sys.modules.items() if _is_of_windlass(name)}
        _public.update(loaded)
    except ImportError:
        pass  # this interpreter does not have the package
    finally:
        for name in [name for name in sys.modules if _is_of_windlass(name)]:
            del sys.modules[name]
        sys.modules.update(own)


def _is_of_windlass(name: str) -> bool:
    return name.partition(".")[0] == "windlass"


def _wait_to_supervise(end: int) -> None:
    """In a fork, prepare to supervise, then wait for an attempt. Never return."""
    fork: Fork | None = None
    try:
        supervised_attempt.leave_session()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signals = SignalPipe()
        # If this process has exited, the launcher notices the broken pipe.
        fork = Fork(closed=(end,))
        with open(end, "rb") as pipe:
            attempt_dir = os.fsdecode(pipe.read())
    except (StartError, OSError):
        os._exit(1)
    if not attempt_dir:
        os._exit(0)  # the launcher has closed the pipe
    _supervise(attempt_dir, signals, fork)


def _supervise(
    attempt_dir: str, signals: SignalPipe | None = None, fork: Fork | None = None
) -> None:
    """In a fork, supervise an attempt. Never return."""
    code = 1
    try:
        if signals is None:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        path = os.path.join(attempt_dir, "supervisor.err")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        errors = retried(lambda: os.open(path, flags, 0o600))
        os.dup2(errors, 2)
        os.close(errors)
        supervised_attempt.supervise(attempt_dir, is_warm=True, signals=signals, fork=fork)
        code = 0
    except BaseException:  # noqa: BLE001  # printed to supervisor.err
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _answer(requests: socket.socket, message: object) -> None:
    requests.sendall(json.dumps(message).encode() + b"\n")


def _start_clock_of_logging() -> None:
    """Reset the start time of the `logging` module, which a fork inherits from the launcher."""
    logging: Any = sys.modules.get("logging")  # loaded along with cloudpickle
    if logging is not None:
        is_whole = isinstance(logging._startTime, int)
        logging._startTime = time.time_ns() if is_whole else time.time()


def _mark(marker: str) -> None:
    """Write the trial's marker into the environment that the kernel shows for this process."""
    if sys.platform == "linux" and len(os.environ.get(MARKER, "")) == MARKER_ROOM:
        _write_over(MARKER, marker)
        _write_over(DETACHED, "0")


def _write_over(name: str, text: str) -> None:
    """Overwrite an environment variable's value in place, if the text fits."""
    size, value = len(os.environ.get(name, "")), text.encode()
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    address = libc.getenv(name.encode())
    if address and len(value) <= size:
        ctypes.memmove(address, value.ljust(size, b"\0"), size)


def _close_all_but_standard() -> None:
    """Close all descriptors inherited from the supervisor, including the attempt's lock."""
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
                pass  # this was the descriptor of the listing itself


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    print(leaving.code, file=sys.stderr)  # noqa: T201  # the behaviour of Python
    return 1


def _finish(code: int, preloaded: Collection[str]) -> int:
    """End the process as Python would: wait for threads, run exit handlers and flush output."""
    threading: Any = sys.modules.get("threading")
    for step in (threading and threading._shutdown, atexit._run_exitfuncs):
        try:
            if step is not None:
                step()
        except KeyboardInterrupt:  # it ends only the wait for a thread or one exit handler
            code = code or _INTERRUPTED
    _let_go(preloaded)
    for stream in (sys.stdout, sys.stderr):
        if stream is None or getattr(stream, "closed", False):
            continue
        try:
            stream.flush()
        except Exception:  # noqa: BLE001  # user code may have replaced the stream
            code = code or 120  # Python's exit code in this case
    ctypes.CDLL(None).fflush(None)  # output from C code
    return code


def _let_go(preloaded: Collection[str]) -> None:
    """Flush all open files and run finalizers, as far as user code created them.

    Fully shutting down the interpreter would take much longer. Objects that the launcher created
    have nothing to write, and `gc.freeze` has hidden them from this search.
    """
    # in reverse, because a file's wrapper is newer than the file
    for candidate in reversed(gc.get_objects()):
        if issubclass(type(candidate), io.IOBase):
            try:
                candidate.flush()
            except Exception:  # noqa: BLE001, S110  # the file is closed or not writable
                pass
    for name in sys.modules.keys() - preloaded:
        sys.modules.pop(name, None)
    gc.collect()
