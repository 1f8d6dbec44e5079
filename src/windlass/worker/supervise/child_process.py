"""Starts the user's process with its environment and command line."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys

from windlass.worker.common.own_attempt import OUTPUTS
from windlass.worker.common.process_tree import AWAY, DETACHED
from windlass.worker.startup.windlass_imports import VARIABLE as IMPORTS
from windlass.worker.startup.windlass_imports import describe_imports
from windlass.worker.startup.windlass_streams import VARIABLE as STREAMS
from windlass.worker.startup.windlass_streams import describe_pipes
from windlass.worker.supervise import linux, signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from windlass.worker.shell.terminal import Terminal

# If the author's environment is unknown, the process inherits these of the supervisor's variables.
_BASIC = ("PATH", "HOME", "LANG", "LANGUAGE", "TMPDIR", "USER", "LOGNAME", "SHELL", "TZ")
# Variables that describe the trial in which the author runs, if any. These, and the variables
# listed in GIVEN, must not be passed on to trials that the author submits from there.
_OF_ANOTHER = (
    AWAY,
    DETACHED,
    IMPORTS,
    "WINDLASS_EXTERNAL",
    "WINDLASS_RANK",
    "WINDLASS_CHECKPOINT",
    "WINDLASS_CHECKPOINTS",
)
GIVEN = "WINDLASS_GIVEN"
FAULT_HANDLER = "PYTHONFAULTHANDLER"
_WORKER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_STARTUP = os.path.join(_WORKER, "startup")  # the folder of `sitecustomize.py`
_BOOTSTRAP = os.path.join(_WORKER, "bootstrap.py")


class StartError(Exception):
    """Raised if the process cannot be started. `exit_code` is what a shell would return."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Child:
    """A started process, and the ends of its output pipes from which this process reads."""

    def __init__(self, pid: int, stdout: int, stderr: int | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr


def build_environ(
    launch: Mapping[str, Any],
    private: Mapping[str, Any],
    python: str,
    own: Mapping[str, str],
) -> dict[str, str]:
    """Build the process's environment from the author's, the job's and our own variables."""
    author = private.get("environ") or {
        name: value for name, value in own.items() if name in _BASIC or name.startswith("LC_")
    }
    key = launch["key"]
    foreign = {*_OF_ANOTHER, GIVEN, *author.get(GIVEN, "").split(",")}
    author = {name: value for name, value in author.items() if name not in foreign}
    environ = {
        "PYTHONUNBUFFERED": "1",
        FAULT_HANDLER: "1",  # Python prints all threads' stacks if C code crashes
        **(launch.get("defaults") or {}),
        **author,
        **launch["env"],
        **(private.get("secrets") or {}),
    }
    environ["WINDLASS_TRIAL_ID"] = str(key["trial_id"])
    environ["WINDLASS_ROLE"] = key["role"]
    environ["WINDLASS_INDEX"] = str(key["index"])
    environ["WINDLASS_ATTEMPT"] = str(key["attempt"])
    environ["WINDLASS_HOME"] = os.path.dirname(launch["server_file"])
    environ["WINDLASS_REPLICA"] = replica_marker(key)
    environ["WINDLASS_OUTPUT_DIR"] = output_folder(launch)
    if launch.get("checkpoints"):
        environ["WINDLASS_CHECKPOINTS"] = launch["checkpoints"]
        environ.update(_latest_checkpoint(launch))
    environ["PATH"] = _joined(os.path.dirname(python), environ.get("PATH", os.defpath))
    if launch.get("environment"):
        environ["VIRTUAL_ENV"] = launch["environment"]["target"]
    if launch["executable"]["type"] == "shell":
        for stale in ("LINES", "COLUMNS"):  # from the author's terminal
            environ.pop(stale, None)
    if launch["executable"]["type"] != "function":
        paths = [*import_paths(launch), *launch["extra_paths"]]
        environ["PYTHONPATH"] = _joined(_STARTUP, *paths, environ.get("PYTHONPATH", ""))
        if copies := copied_paths(launch):
            environ[IMPORTS] = describe_imports(copies)
    return environ


def _latest_checkpoint(launch: Mapping[str, Any]) -> dict[str, str]:
    """Restore the newest checkpoint, and return the variable that contains its path.

    Return {} if there is no checkpoint.
    """
    folder = launch["checkpoints"]
    begin = launch.get("begin")
    if begin:
        from windlass.worker.checkpoints.records import write_origin

        write_origin(folder, begin)
    if not os.path.isdir(folder):
        return {}
    from windlass.worker.checkpoints import copies as checkpoint_copies
    from windlass.worker.checkpoints import shards
    from windlass.worker.checkpoints.records import Saver

    key = launch["key"]
    saver = Saver(folder, key["role"], key["index"], key["attempt"])
    is_together = bool(launch.get("together"))
    if is_together:
        shards.forget_dead(folder, saver.attempt)
    checkpoint_copies.forget_superseded(saver)
    path = checkpoint_copies.latest(saver, shared=is_together)
    return {} if path is None else {"WINDLASS_CHECKPOINT": path}


def replica_marker(key: Mapping[str, Any]) -> str:
    """Return the marker that every process of an attempt has in its environment.

    >>> replica_marker({"uid": "c0ffee", "role": "main", "index": 0, "attempt": 1})
    'c0ffee/main/0/1'

    A copied home's trials have the same uids, so the home's id is appended.
    """
    marker = f"{key['uid']}/{key['role']}/{key['index']}/{key['attempt']}"
    return f"{marker}/{key['home']}" if key.get("home") else marker


def output_folder(launch: Mapping[str, Any]) -> str:
    """Return the folder for a replica's artifacts.

    >>> output_folder({"work": "/home/w/trials/7/main-0/work"})
    '/home/w/trials/7/main-0/outputs'
    """
    return os.path.join(os.path.dirname(launch["work"]), OUTPUTS)


def import_paths(launch: Mapping[str, Any]) -> list[str]:
    """Return the author's import paths, translated to paths in the restored code.

    >>> import_paths({"work": "/home/w/work", "import_paths": [".", "src"]})
    ['/home/w/work', '/home/w/work/src']
    """
    return [os.path.normpath(os.path.join(launch["work"], path)) for path in launch["import_paths"]]


def copied_paths(launch: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return import paths outside the project, each with its copy in the restored code.

    >>> copied_paths({"work": "/home/w/work", "copied_paths": [["/code/lib", "lib"]]})
    [('/code/lib', '/home/w/work/lib')]
    """
    work = launch["work"]
    copies = launch.get("copied_paths") or ()
    return [(path, os.path.normpath(os.path.join(work, copy))) for path, copy in copies]


def can_call_here(launch: Mapping[str, Any], python: str) -> bool:
    """Return whether a fork of this process can call the function just like a new process.

    It cannot if the interpreter differs, or if a module loaded here has the same name as one of the
    project's modules.
    """
    if launch["executable"]["type"] != "function" or python != sys.executable:
        return False
    loaded = {name for name in sys.modules if "." not in name}
    return not any(loaded & _module_names(path) for path in import_paths(launch))


def build_argv(
    launch: Mapping[str, Any], attempt_dir: str, python: str, environ: dict[str, str], cwd: str
) -> list[str]:
    """Return the command line, which starts with the program's path.

    Raise `StartError` if the program does not exist.
    """
    executable = launch["executable"]
    if executable["type"] == "function":
        return [_program(python, environ, cwd), _BOOTSTRAP, attempt_dir]
    if executable["type"] == "shell" and not executable["argv"]:
        from windlass.worker.shell.startup_files import own_shell

        name, *arguments = own_shell(environ, attempt_dir)
    else:
        name, *arguments = executable["argv"]
    if name in ("python", "python3"):
        name = python
    return [_program(name, environ, cwd), *arguments]


class Fork:
    """A forked process in its own session that waits until it gets a program to run.

    Because forking takes time, a fork can be created before it is needed. If it never gets a
    program, it ends with its parent process. The fork closes the descriptors in `closed`.
    """

    def __init__(self, *, closed: tuple[int, ...] = ()) -> None:
        ends: list[int] = []
        parent = os.getpid()
        try:
            for _ in range(4):
                ends += os.pipe()
            stdout, stdout_end, stderr, stderr_end, orders, self._orders, self._fault, fault_end = (
                ends
            )
            self._pid = os.fork()
        except OSError:
            _close(*ends)
            raise
        ours = (stdout, stderr, self._orders, self._fault)
        theirs = (stdout_end, stderr_end, orders, fault_end)
        if self._pid == 0:
            _close(*ours, *closed)
            _become_requested_process(parent, *theirs)
        _close(*theirs)
        self._stdout, self._stderr = stdout, stderr

    def has_ended(self) -> bool:
        """Return whether this waiting fork was killed. If so, close its pipes."""
        ended, _ = os.waitpid(self._pid, os.WNOHANG)
        if ended:
            _close(self._stdout, self._stderr, self._orders, self._fault)
        return bool(ended)

    def become(
        self,
        argv: list[str],
        environ: Mapping[str, str],
        cwd: str,
        *,
        merged: bool = False,
        author: Mapping[str, Any] | None = None,
        call: str | None = None,
        terminal: Terminal | None = None,
    ) -> Child:
        """Run a program in the fork. Its output goes to two pipes, or to one if `merged`.

        `author` can contain the submitting process's umask and limit on open files. If `call` is
        set, it is an attempt's directory, and the fork calls that attempt's function instead of a
        program. If `terminal` is set, it replaces the pipes. It must be opened before the fork.
        """
        author = {name: (author or {}).get(name) for name in ("umask", "open_files")}
        variables = {**environ, STREAMS: describe_pipes(self._stdout, self._stderr)}
        order = {"argv": argv, "environ": variables, "cwd": cwd, "merged": merged}
        if terminal is not None:
            order["inner"], order["has_terminal"] = terminal.inner, terminal.has_terminal
        try:
            with open(self._orders, "wb") as pipe:
                pipe.write(json.dumps({**order, "author": author, "call": call}).encode())
        except BrokenPipeError:
            pass  # the fork was killed; the caller notices this when it waits for the process
        with open(self._fault, "rb") as pipe:
            failure = pipe.read()
        if merged:
            _close(self._stderr)
        if failure:
            os.waitpid(self._pid, 0)
            _close(self._stdout, *(() if merged else (self._stderr,)))
            raise _start_error(argv[0], cwd, int(failure))
        return Child(self._pid, self._stdout, None if merged else self._stderr)


def _become_requested_process(
    parent: int, stdout_end: int, stderr_end: int, orders: int, fault_end: int
) -> None:
    """In the forked child, wait for a request to run a program, and run it. Never return."""
    try:
        os.setsid()
        linux.die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)
        signals.reset_for_exec()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        with open(orders, "rb") as pipe:
            text = pipe.read()
        if not text:
            os._exit(0)
        order = json.loads(text)
        _take_on(order["author"])
        os.chdir(order["cwd"])
        os.dup2(stdout_end, 1)
        os.dup2(stdout_end if order["merged"] else stderr_end, 2)
        if "inner" in order:
            _sit_down(order)
        if order["call"] is not None:
            from windlass.worker.supervise.warm_fork import call_here

            os.close(fault_end)
            call_here(order["call"], order["environ"])
        os.execve(order["argv"][0], order["argv"], order["environ"])  # noqa: S606  # the requested program
    except OSError as error:
        os.write(fault_end, str(error.errno).encode())
    except ValueError:
        # a NUL character in an argument, or `=` in a variable's name
        os.write(fault_end, str(errno.EINVAL).encode())
    finally:
        os._exit(127)


def _sit_down(order: Mapping[str, Any]) -> None:
    """In the forked child, use the requested terminal or pipes for input and output."""
    stdin, stdout = order["inner"]
    if order["has_terminal"]:
        from windlass.worker.shell.terminal import take_controls

        take_controls(stdin)
    for fd, ours in ((stdin, 0), (stdout, 1), (stdout, 2)):
        os.dup2(fd, ours)


def _take_on(author: Mapping[str, Any]) -> None:
    """In the forked child, apply the author's umask and limits instead of the server's."""
    if author.get("umask") is not None:
        os.umask(author["umask"])
    if author.get("open_files") is not None:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = author["open_files"]
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        except (OSError, ValueError):
            pass  # the kernel does not allow this much, so keep the current limit


def _start_error(program: str, cwd: str, number: int) -> StartError:
    if not os.path.isdir(cwd):
        return StartError(f"the working directory does not exist: {cwd}", 126)
    return StartError(f"{program} cannot be run: {os.strerror(number)}", 126)


def _program(name: str, environ: Mapping[str, str], cwd: str) -> str:
    """Return the path of the program that a shell in the directory `cwd` would run."""
    if "/" in name:
        path = os.path.join(cwd, name)
        if os.path.exists(path):
            return path
        raise StartError(f"there is no program {name}", 127)
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(cwd, folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise StartError(f"there is no program {name!r} on the PATH", 127)


def _module_names(folder: str) -> set[str]:
    try:
        return {name.partition(".")[0] for name in os.listdir(folder)}
    except OSError:
        return set()


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def _joined(*paths: str) -> str:
    return os.pathsep.join(path for path in paths if path)
