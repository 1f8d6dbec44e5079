"""Run commands and scripts in forks of one interpreter that has Windlass imported.

A short command spends most of its time on the start of Python and its imports. Each test process
pays for these once: `run` sends the command, its environment, folder and streams to a fork server,
and the fork becomes an ordinary process of that command; `start` does not wait for its end. Other
programs, and environments with other settings of Python, start in a new interpreter.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

WINDLASS = str(Path(sys.executable).parent / "windlass")
_IMPORTED = ("authoring", "cli", "client", "comparison", "model", "packaging", "worker")
# Variables that Python or a module of Windlass reads only once.
_READ_AT_START = ("PYTHON", "LD_", "WINDLASS_TRIAL_ID", "WINDLASS_AWAY")
_UNBUFFERED = "PYTHONUNBUFFERED"  # a fork applies it when it opens its streams
_also: list[str] = []
_server: _ForkServer | None = None
_starting = threading.Lock()


def run(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    mixed: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command without input to its end and capture its output as text.

    With `mixed`, errors are part of the output, as in a terminal.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as own_stderr:
        stderr = stdout if mixed else own_stderr
        if _is_ours(command, env):
            code = _fork_server().run(command, cwd, env, stdout, stderr, timeout)
        else:
            code = subprocess.run(
                command,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                timeout=timeout,
                check=False,
            ).returncode
        return subprocess.CompletedProcess(command, code, _text(stdout), _text(own_stderr))


def start(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: int
) -> Started | subprocess.Popen[bytes]:
    """Start a command without input. Its output and errors go to an open file."""
    if _is_ours(command, env):
        return _fork_server().start(command, cwd, env, output, output)
    return subprocess.Popen(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
    )


def also_import(*modules: str) -> None:
    """Import these modules too, before the first fork: those that many commands of a test need."""
    _also.extend(modules)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")


def _is_ours(command: Sequence[str], env: Mapping[str, str]) -> bool:
    if not _can_watch_processes() or _settings_of_python(env) != _SETTINGS:
        return False
    is_script = command[0] == sys.executable and len(command) > 1 and command[1].endswith(".py")
    return command[0] == WINDLASS or is_script


@cache
def _can_watch_processes() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):  # not Linux, an old kernel or a sandbox
        return False
    return True


def _settings_of_python(env: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in env.items()
        if name.startswith(_READ_AT_START) and name != _UNBUFFERED
    }


# Tests may change the environment later; the fork server starts with this one.
_ENVIRONMENT = dict(os.environ)
_SETTINGS = _settings_of_python(_ENVIRONMENT)


def _fork_server() -> _ForkServer:
    global _server
    with _starting:
        if _server is None:
            _server = _ForkServer()
            atexit.register(_server.close)
        return _server


class Started:
    """A command in a fork, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, command: Sequence[str], answers: socket.socket) -> None:
        self._command = command
        self._answers = answers
        self.pid = int.from_bytes(_read(answers, 4), "little")
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, the negative number of a signal, or none while it runs."""
        try:
            return self.wait(timeout=0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code, or the negative number of a signal."""
        if self._code is None:
            self._answers.settimeout(timeout)
            try:
                self._code = int.from_bytes(_read(self._answers, 4), "little", signed=True)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self._command, timeout or 0) from None
            self._answers.close()
        return self._code

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process unless it has ended."""
        self.send_signal(signal.SIGKILL)


class _ForkServer:
    """The tests' end of the fork server."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair()
        self._sending = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *_also],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=_ENVIRONMENT,
            )

    def run(
        self,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        stdout: IO[bytes],
        stderr: IO[bytes],
        timeout: float,
    ) -> int:
        """Run a command in a fork and return its exit code, or the negative number of a signal."""
        started = self.start(command, cwd, env, stdout.fileno(), stderr.fileno())
        try:
            return started.wait(timeout)
        except subprocess.TimeoutExpired:
            started.kill()
            raise

    def start(
        self, command: Sequence[str], cwd: Path, env: Mapping[str, str], stdout: int, stderr: int
    ) -> Started:
        """Start a command in a fork."""
        answers, theirs = socket.socketpair()
        with theirs, tempfile.TemporaryFile() as request, open(os.devnull, "rb") as stdin:
            words = {"command": list(command), "cwd": str(cwd), "env": dict(env)}
            request.write(json.dumps(words).encode())
            request.seek(0)
            files = [request.fileno(), stdin.fileno(), stdout, stderr, theirs.fileno()]
            with self._sending:
                socket.send_fds(self._requests, [b"."], files)
        return Started(command, answers)

    def close(self) -> None:
        """Stop the fork server. Running commands continue."""
        self._requests.close()
        self._process.wait()


def _read(answers: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = answers.recv(size - len(data))
        assert more, "the fork server ended"
        data += more
    return data


def _serve(requests: socket.socket, also: Sequence[str]) -> None:
    """Fork for each request, and report each exit, until the tests close the socket."""
    _import_windlass(also)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is not requests:
                selector.unregister(key.fileobj)
                os.close(key.fd)
                _report_exit(*key.data)
                continue
            byte, fds, _, _ = socket.recv_fds(requests, 1, 5)
            if not byte:
                return
            answers = socket.socket(fileno=fds.pop())
            pid = os.fork()
            if pid == 0:
                _become(fds)
            for fd in fds:
                os.close(fd)
            _report(answers, pid)
            selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (answers, pid))


def _report_exit(answers: socket.socket, pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    with answers:
        _report(answers, os.waitstatus_to_exitcode(status))


def _report(answers: socket.socket, number: int) -> None:
    try:
        answers.sendall(number.to_bytes(4, "little", signed=True))
    except ConnectionError:  # the test no longer waits
        pass


def _import_windlass(also: Sequence[str]) -> None:
    import gc
    import importlib
    import pkgutil

    import windlass

    [folder] = windlass.__path__
    for package in _IMPORTED:
        for module in pkgutil.walk_packages([f"{folder}/{package}"], f"windlass.{package}."):
            importlib.import_module(module.name)
    for name in also:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _become(fds: list[int]) -> NoReturn:
    """Take over the streams, folder and environment of a request, run its command and exit."""
    code = 1
    try:
        request, *streams = fds
        with open(request, "rb", closefd=False) as file:
            words = json.load(file)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(words["cwd"])
        os.environ.clear()
        os.environ.update(words["env"])
        _open_streams()
        _execute(words["command"])
        code = 0
    except SystemExit as leaving:
        code = _exit_code(leaving)
    except BaseException as error:
        _report_uncaught(error)
    finally:
        os._exit(_finish(code))


def _report_uncaught(error: BaseException) -> None:
    """Do what Python does with an exception that nothing catches."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error = error.with_traceback(trace)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    sys.last_exc = error  # type: ignore[attr-defined,unused-ignore]  # since Python 3.12
    sys.excepthook(type(error), error, trace)


def _open_streams() -> None:
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if os.environ.get(_UNBUFFERED):
        sys.stdout.reconfigure(line_buffering=True)
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115


def _execute(command: list[str]) -> None:
    if command[0] == WINDLASS:
        from windlass.cli.main import main

        sys.argv = command
        sys.path[0] = os.path.dirname(WINDLASS)
        main()
    else:
        _run_script(command[1:])


def _run_script(arguments: list[str]) -> None:
    """Run a file as `python FILE` does."""
    path = os.path.abspath(arguments[0])
    sys.argv = arguments
    sys.path[0] = os.path.dirname(path)
    module = types.ModuleType("__main__")
    module.__dict__.update({"__file__": path, "__builtins__": __builtins__})
    sys.modules["__main__"] = module
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    exec(code, module.__dict__)


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    print(leaving.code, file=sys.stderr)
    return 1


def _finish(code: int) -> int:
    """Exit as an interpreter does, without the time it takes to destroy all modules."""
    shutdown: Any = threading._shutdown  # type: ignore[attr-defined]
    shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is None or stream.closed:
            continue
        try:
            stream.flush()
        except OSError:
            code = code or 120
    return code


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
