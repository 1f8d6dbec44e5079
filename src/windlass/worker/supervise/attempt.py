"""Supervises one attempt of a replica, from its launch file to its exit record."""

from __future__ import annotations

import os
import signal
import sys
import time

from windlass.worker.blobs.restore_tree import RestoreError, Tree, clean, read_tree, restore
from windlass.worker.blobs.verified_reads import DamagedBlob, open_verified, read_blob
from windlass.worker.common.atomic_files import make_folder, take_lock, write_json
from windlass.worker.common.file_reads import exists, may_pass, read_json, retried
from windlass.worker.common.nudge import STATE, Nudger
from windlass.worker.common.own_attempt import moved_dir
from windlass.worker.common.process_identity import process_identity
from windlass.worker.common.process_tree import ProcessTree, Termination
from windlass.worker.logs.segment import STDERR, STDOUT, encode_lines
from windlass.worker.program.call_file import large_values
from windlass.worker.supervise import child_process, linux, out_of_memory
from windlass.worker.supervise.child_process import Child, Fork, StartError
from windlass.worker.supervise.event_loop import EventLoop
from windlass.worker.supervise.signals import SignalPipe
from windlass.worker.supervise.usage_schedule import UsageSchedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable
    from typing import Any

    from windlass.worker.supervise.package_environment import Environment

_GRACE_FOR_LEFTOVERS = 2.0
_DRAIN = 1.0  # seconds to keep reading pipes that a process outside the process tree holds open
_LARGE_TREE = 1000
_SHORT = 0.02
_PATIENCE = 20.0  # seconds for which starting is retried after temporary errors
_LAST_NUDGE = 2.0
_HEAD_START = 2.0  # seconds of delay, so that a running server can enforce the deadline first

# A monotonic clock that also runs while the machine sleeps, if the system has one.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

# the reason recorded for an attempt that the supervisor stopped at its deadline
OUT_OF_TIME = "DeadlineExceeded"


def supervise(
    attempt_dir: str,
    *,
    is_warm: bool = False,
    signals: SignalPipe | None = None,
    fork: Fork | None = None,
) -> None:
    """Run an attempt to its end. Do nothing if it has already had a supervisor or has ended.

    A warm supervisor is a fork of a launcher, and can fork the user's process instead of starting a
    new interpreter. `signals` and `fork` may have been prepared in advance.
    """
    leave_session()
    # Set up signals before taking the lock, because a process that sees the lock may send signals.
    signals = signals or SignalPipe()
    if retried(lambda: _take_attempt_lock(attempt_dir)) is None:
        return  # once taken, a lock is held until this process ends
    os.chdir(attempt_dir)  # see `moved_dir`
    launch = retried(lambda: read_json(os.path.join(attempt_dir, "launch.json")))
    if launch is not None:
        supervision = retried(
            lambda: Supervision(attempt_dir, launch, signals, is_warm=is_warm, fork=fork)
        )
        supervision.run()


def leave_session() -> None:
    """Start a new session without a terminal."""
    try:
        os.setsid()
    except PermissionError:
        pass  # this process already leads its own session


def _take_attempt_lock(attempt_dir: str) -> int | None:
    """Lock the attempt. Return None if it ever had another supervisor or has ended."""
    give_up = time.monotonic() + 2.0
    while True:
        lock = take_lock(os.path.join(attempt_dir, "lock"))
        try:
            # Never restart an attempt that another supervisor started, even if that supervisor was
            # killed.
            if any(exists(os.path.join(attempt_dir, name)) for name in ("exit.json", "state.json")):
                return None
        except OSError:
            if lock is not None:
                os.close(lock)
            raise
        # If the lock is taken, either another supervisor is starting, or `is_locked` holds the lock
        # for an instant.
        if lock is not None or time.monotonic() > give_up:
            return lock
        time.sleep(0.005)  # flock has no timeout


class Stopped(Exception):
    """Raised if the attempt is stopped before its process has started."""


class Supervision:
    """Runs one attempt, from its first state to its exit record, and holds its state."""

    def __init__(
        self,
        attempt_dir: str,
        launch: dict[str, Any],
        signals: SignalPipe,
        *,
        is_warm: bool = False,
        fork: Fork | None = None,
    ) -> None:
        self._dir = attempt_dir
        self._is_warm = is_warm
        self._fork = fork
        self._launch = launch
        self._private = (read_json(launch["private"]) if launch.get("private") else None) or {}
        self._nudger = Nudger(launch["server_file"], launch["key"])
        secrets = self._private.get("secrets") or {}
        values = [secrets[name] for name in launch["secret_names"] if name in secrets]
        self._watch = EventLoop(attempt_dir, signals, self._nudger, values)
        self._sees_orphans = False
        self._tree: Tree | None = None
        self._port: _socket.socket | None = None
        self._work_lock: int | None = None
        # the deadline counts from here
        self._requested_at = time.monotonic()
        self._began = 0.0
        self._ended: float | None = None  # when the process ended, by `time.monotonic`
        me = os.getpid()
        self._state: dict[str, Any] = {
            "stage": "starting",
            "message": "",
            "supervisor": {"pid": me, "identity": process_identity(me)},
            "process": None,
            "started": None,
        }

    def run(self) -> None:
        """Run the attempt: write its first state, run its process, and write its exit record.

        Afterwards, clean up.
        """
        self._write_first_state()
        ending: dict[str, Any]
        try:
            # If the stop request preceded the first state, no signal was sent.
            if retried(lambda: exists(self._path("stop.json"))):
                self._watch.begin_to_stop()
            self._sees_orphans = linux.adopt_orphans()
            ending = self._run_process(*self._prepare_patiently())
        except Stopped:
            ending = {"reason": "Stopped", "message": "stopped before it was started"}
        except (StartError, RestoreError) as error:
            code = error.exit_code if isinstance(error, StartError) else None
            ending = {"reason": "StartFailed", "exit_code": code, "message": str(error)}
        except OSError as error:
            ending = {"reason": "StartFailed", "message": f"it could not be started: {error}"}
        self._watch.flush_log()
        self._dir = moved_dir(self._dir, os.getpid())
        self._write_exit(ending)
        if self._tree is not None:
            clean(self._tree, self._launch["work"])
        self._send_last_nudges()

    # Before the process

    def _prepare_patiently(self) -> tuple[list[str], dict[str, str], str]:
        """Prepare the start of the user's process, retrying after temporary errors.

        This is safe, because nothing has run yet.
        """
        give_up = time.monotonic() + _PATIENCE
        pause = _SHORT
        while True:
            try:
                return self._prepare()
            except OSError as error:
                if not may_pass(error) or time.monotonic() + pause > give_up:
                    raise
                self._enter(self._state["stage"], f"cannot start yet: {error.strerror}")
            self._watch.wait(time.monotonic() + pause)
            self._check_stop()
            pause = min(pause * 2, 1.0)

    def _prepare(self) -> tuple[list[str], dict[str, str], str]:
        """Prepare the start.

        Return the process's command line, environment and working directory.
        """
        launch = self._launch
        python = launch["python"]
        self._hold_port()
        if launch.get("flaw"):
            raise StartError(launch["flaw"], 126)
        if launch.get("environment"):
            from windlass.worker.supervise.package_environment import Environment

            python = self._make_environment(Environment(launch["environment"], python))
        self._check_inputs()
        self._restore()
        cwd = os.path.normpath(os.path.join(launch["work"], launch["workdir"]))
        self._check_inside(cwd)
        make_folder(cwd)
        if launch["volumes"]:
            from windlass.worker.supervise.volumes import link_volumes

            link_volumes(launch["volumes"], launch["work"], launch["workdir"])
        if launch["executable"]["type"] == "process":  # it never calls `wl.output_dir`
            make_folder(child_process.output_folder(launch), 0o700)
        environ = child_process.build_environ(launch, self._private, python, os.environ)
        argv = child_process.build_argv(launch, self._dir, python, environ, cwd)
        self._hold_port()
        self._check_stop()
        return argv, environ, cwd

    def _hold_port(self) -> None:
        """Reserve the replica's port for this supervisor's lifetime.

        If the previous attempt is still using the port, a later call reserves it.
        """
        if not self._launch.get("hold") or self._port is not None:
            return
        from windlass.worker.supervise.ports import hold_port

        self._port = hold_port(self._launch["hold"])

    def _make_environment(self, environment: Environment) -> str:
        if environment.is_complete:
            return environment.python
        make_folder(os.path.dirname(environment.target))
        lock = self._wait_for_lock(environment.target + ".lock", "the same packages")
        try:
            if not environment.is_complete:
                self._install(environment)
        finally:
            os.close(lock)
        return environment.python

    def _install(self, environment: Environment) -> None:
        count = environment.package_count()
        self._enter("installing", f"installing {count} package{'s' * (count != 1)}")
        environment.prepare()
        # Include the job's variables, because they alone tell a pod the package index.
        variables = {**self._launch["env"], **(self._private.get("secrets") or {})}
        environ = environment.environ({**(self._private.get("environ") or os.environ), **variables})
        folder = os.path.dirname(environment.target)
        for argv in environment.commands():
            status = self._attend(_make_fork().become(argv, environ, folder, merged=True))
            self._check_stop()
            if status != 0:
                raise StartError("its packages could not be installed; its log says why", 1)
        environment.finish()

    def _restore(self) -> None:
        work = self._launch["work"]
        make_folder(work)
        if self._work_lock is None:
            # The previous attempt may still be removing its code. This process then holds the lock
            # until it ends.
            self._work_lock = self._wait_for_lock(work + ".lock", "the attempt before")
        if not self._launch.get("tree"):
            return
        self._tree = read_tree(self._read_manifest(self._launch["tree"]), outside_links=True)
        if len(self._tree) >= _LARGE_TREE:
            self._enter("restoring", f"restoring {len(self._tree)} files")
        restore(self._tree, work, self._launch["blobs"], self._is_stopping)
        self._name_dangling_links(self._tree)

    def _name_dangling_links(self, tree: Tree) -> None:
        """Log the links out of the project whose targets do not exist on this machine."""
        for path, target in tree.outside_links():
            if not os.path.lexists(target):
                text = f"windlass: {path} is a link to {target}, which does not exist here\n"
                line = text.encode("utf-8", "replace")
                self._watch.log.add(encode_lines(time.time(), STDERR, line))

    def _check_inside(self, cwd: str) -> None:
        """Refuse a working directory to which only a link out of the code leads."""
        work = os.path.realpath(self._launch["work"])
        if not os.path.join(os.path.realpath(cwd), "").startswith(os.path.join(work, "")):
            raise RestoreError("its working directory is behind a link that leaves the code")

    def _check_inputs(self) -> None:
        """Verify the blobs that the user's process and uv read from the store, such as the call."""
        executable, environment = self._launch["executable"], self._launch.get("environment") or {}
        needed = (executable.get("payload"), executable.get("changes"), environment.get("lock"))
        for path in filter(None, needed):
            try:
                os.close(open_verified(self._launch["blobs"], os.path.basename(path)))
            except DamagedBlob:
                what = "list of packages" if path == environment.get("lock") else "call"
                raise RestoreError(
                    f"its {what} is damaged in the store and was set aside"
                ) from None
        if executable.get("payload"):
            self._check_large_values(executable["payload"])

    def _check_large_values(self, payload: str) -> None:
        """Verify a call's large values, which are separate blobs."""
        try:
            digests = [*large_values(payload)]
        except ValueError as error:
            raise RestoreError(f"its call cannot be read: {error}") from None
        for digest in digests:
            try:
                os.close(open_verified(self._launch["blobs"], digest))
            except DamagedBlob:
                reason = "is damaged in the store and was set aside"
            except FileNotFoundError:
                reason = "is missing from the store"
            else:
                continue
            raise RestoreError(f"a large value of its call {reason}")

    def _read_manifest(self, path: str) -> bytes:
        try:
            return read_blob(self._launch["blobs"], os.path.basename(path))
        except DamagedBlob:
            reason = "is damaged in the store and was set aside"
        except FileNotFoundError:
            reason = "is missing from the store"
        except ValueError as error:
            reason = f"cannot be read: {error}"
        raise RestoreError(f"the list of the code's files {reason}")

    def _wait_for_lock(self, path: str, whose: str) -> int:
        is_reported = False
        while True:
            lock = take_lock(path)
            if lock is not None:
                return lock
            if not is_reported:
                self._enter(self._state["stage"], f"waiting for {whose}")
                is_reported = True
            self._watch.wait(time.monotonic() + 0.02)
            self._check_stop()

    def _is_stopping(self) -> bool:
        self._watch.wait(time.monotonic())
        return self._watch.stop_by is not None

    def _check_stop(self) -> None:
        if self._is_stopping():
            raise Stopped

    # The process

    def _run_process(self, argv: list[str], environ: dict[str, str], cwd: str) -> dict[str, Any]:
        """Run the user's process to its end and return its exit record."""
        kills_before = out_of_memory.oom_kills()
        child = self._start(argv, environ, cwd)
        self._state["process"] = {"pid": child.pid, "identity": process_identity(child.pid)}
        self._state["started"] = time.time()
        self._began = time.clock_gettime(_STEADY)
        self._enter("running", "")
        if self._launch.get("deadline"):
            passed = time.monotonic() - self._requested_at
            self._watch.set_deadline(self._launch["deadline"] + _HEAD_START - passed)
        usage_schedule = UsageSchedule(self._dir, self._launch, environ, self._nudger)
        self._watch.sample_in(usage_schedule.first_in, usage_schedule.take)
        family = ProcessTree(child.pid, sees_orphans=self._sees_orphans)
        departure = Termination(family)
        code = os.waitstatus_to_exitcode(self._attend(child, family, departure))
        self._ended = family.first_ended
        usage_schedule.take_last()
        ending: dict[str, Any] = {"exit_code": code}
        if code < 0:
            name = _signal_name(-code)
            ending = {"exit_code": 128 - code, "signal": name, "reason": "Signal"}
            is_by_others = code == -signal.SIGKILL and not departure.was_first_killed
            if is_by_others and out_of_memory.oom_kills() > kills_before:
                ending["message"] = out_of_memory.why_killed()
        elif code and not departure.was_first_signalled:
            from windlass.worker.supervise.find_exception import find_exception

            self._watch.flush_log()
            ending["exception"] = find_exception(self._dir, self._launch["work"])
        if departure.was_first_signalled:
            ending["reason"] = OUT_OF_TIME if self._watch.is_out_of_time else "Stopped"
        return ending

    def _start(self, argv: list[str], environ: dict[str, str], cwd: str) -> Child:
        if self._launch["executable"]["type"] == "shell":
            terminal = self._watch.open_terminal(self._launch["executable"])
            try:
                # Fork only now, so that the child inherits the terminal's descriptors.
                return _make_fork().become(
                    argv, environ, cwd, author=self._private, terminal=terminal
                )
            finally:
                terminal.let_go()
        fork = self._fork if self._fork and not self._fork.has_ended() else _make_fork()
        call = (
            self._dir
            if self._is_warm and child_process.can_call_here(self._launch, argv[0])
            else None
        )
        return fork.become(argv, environ, cwd, author=self._private, call=call)

    def _attend(
        self, child: Child, family: ProcessTree | None = None, departure: Termination | None = None
    ) -> int:
        """Log a process's output until the process and all its descendants have ended.

        Return the process's wait status.
        """
        watch = self._watch
        family = family or ProcessTree(child.pid, sees_orphans=self._sees_orphans)
        departure = departure or Termination(family)
        watch.open(child.stdout, STDERR if child.stderr is None else STDOUT)
        if child.stderr is not None:
            watch.open(child.stderr, STDERR)
        leftovers_by = drained_by = None
        while True:
            due: float | None = None
            now = time.monotonic()
            is_left = family.reap()
            if family.first_status is None:
                if watch.stop_by is not None:
                    if self._state["stage"] == "running":
                        self._enter("stopping", "")
                        watch.hang_up()
                    due = departure.urge(now, watch.stop_by, watch.terminate_at)
            elif is_left and not departure.is_hopeless(now):
                leftovers_by = leftovers_by or now + _GRACE_FOR_LEFTOVERS
                by = min(leftovers_by, watch.stop_by or leftovers_by)
                # Processes that received SIGINT have a moment to end by themselves.
                pause = min(watch.terminate_at, leftovers_by - _GRACE_FOR_LEFTOVERS / 2)
                due = departure.urge(now, by, pause)
            else:
                due = drained_by = drained_by or now + _DRAIN
                if not watch.is_reading or now >= drained_by:
                    break
            watch.wait(due)
        watch.close_streams()
        return family.first_status

    # State and exit record

    def _path(self, name: str) -> str:
        return os.path.join(self._dir, name)

    def _enter(self, stage: str, message: str) -> None:
        self._state["stage"], self._state["message"] = stage, message
        self._write_state()
        # Delay this nudge. If the process ends right away, the server then reads the files only
        # once.
        self._nudger.nudge(STATE, delay=_SHORT if stage == "running" else 0.0)

    def _write_first_state(self) -> None:
        """Write the attempt's first state file, before any other work.

        An attempt that has a state file is never started again.
        """
        self._insist(lambda: write_json(self._path("state.json"), self._state))

    def _write_state(self) -> None:
        try:
            write_json(self._path("state.json"), self._state)
        except OSError as error:
            # The disk is full. Continue, because the state is only informative.
            _complain(f"state.json: {error}")

    def _write_exit(self, ending: dict[str, Any]) -> None:
        """Write the attempt's exit record. If the disk is full, wait for space."""
        record = {
            "exit_code": None,
            "signal": "",
            "reason": "",
            "message": "",
            "started": self._state["started"],
            "ended": self._end_time(),
            **ending,
        }

        def write() -> None:
            self._watch.flush_log()  # once the record exists, readers expect the log to be complete
            message = record["message"] or self._log_loss()
            write_json(self._path("exit.json"), {**record, "message": message}, durable=True)

        self._insist(write)
        self._nudger.nudge(STATE)

    def _log_loss(self) -> str:
        log = self._watch.log
        if not log.unwritten:
            return ""
        why = log.why_unwritten.replace("no space left", "the disk is full")
        return f"{why}: {log.unwritten} bytes of its log were lost"

    def _end_time(self) -> float:
        """Return when the process ended, not counting the wait for its descendants.

        This is the start time plus the duration, so that it is right even if the clock was changed
        meanwhile.
        """
        if self._state["started"] is None:
            return time.time()
        since = 0.0 if self._ended is None else time.monotonic() - self._ended
        return float(self._state["started"] + time.clock_gettime(_STEADY) - self._began - since)

    def _insist(self, write: Callable[[], None]) -> None:
        """Call `write` to write a file. While the disk is full, wait and retry."""
        pause = 0.05
        while True:
            try:
                return write()
            except FileNotFoundError:
                return None  # the whole attempt was deleted, so nobody needs the file
            except OSError:
                self._watch.wait(time.monotonic() + pause)
                pause = min(pause * 2, 2.0)

    def _send_last_nudges(self) -> None:
        until = time.monotonic() + _LAST_NUDGE
        while self._nudger.is_pending and time.monotonic() < until:
            self._watch.wait(until)


def _make_fork() -> Fork:
    return retried(Fork, _PATIENCE)


def _complain(text: str) -> None:
    """Write a message to stderr.

    Ignore errors, because stderr may be a file on the same full disk.
    """
    try:
        sys.stderr.write(text + "\n")
    except OSError:
        pass


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
