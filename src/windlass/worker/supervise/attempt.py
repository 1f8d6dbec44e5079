"""One attempt of one replica, from its launch file to its exit record."""

from __future__ import annotations

import os
import signal
import sys
import time

from windlass.worker.blobs.restore_tree import RestoreError, Tree, clean, read_tree, restore
from windlass.worker.common.atomic_files import read_json, take_lock, write_json
from windlass.worker.common.nudge import STATE, Nudger
from windlass.worker.common.process_identity import process_identity
from windlass.worker.common.process_tree import Departure, Family
from windlass.worker.logs.segment import STDERR, STDOUT
from windlass.worker.supervise import child_process, linux, out_of_memory
from windlass.worker.supervise.child_process import Child, Fork, StartError
from windlass.worker.supervise.event_loop import Watch
from windlass.worker.supervise.signals import SignalPipe
from windlass.worker.supervise.usage_schedule import Looks

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable
    from typing import Any

    from windlass.worker.supervise.package_environment import Environment

_GRACE_FOR_LEFTOVERS = 2.0
_DRAIN = 1.0  # for pipes that someone outside keeps open
_LARGE_TREE = 1000
_SHORT = 0.02
_LAST_NUDGE = 2.0
_HEAD_START = 2.0  # in which the server, if there is one, sees to a deadline itself

# Of the clocks that never jump, the one that goes on while the machine sleeps.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

OUT_OF_TIME = "DeadlineExceeded"  # the reason of one that its supervisor ended at its deadline


def supervise(
    attempt_dir: str,
    *,
    is_warm: bool = False,
    signals: SignalPipe | None = None,
    fork: Fork | None = None,
) -> None:
    """Run an attempt to its end. Does nothing if it is supervised already, or has ended.

    A warm supervisor is a fork of a launcher, and can fork on where others must exec. It may
    have been made ahead, with its signals and a fork for the process.
    """
    leave_session()
    # Before the lock: who sees it held may send signals.
    signals = signals or SignalPipe()
    if _take_attempt_lock(attempt_dir) is None:
        return  # else it is ours until this process ends
    launch = read_json(os.path.join(attempt_dir, "launch.json"))
    if launch is not None:
        Supervision(attempt_dir, launch, signals, is_warm=is_warm, fork=fork).run()


def leave_session() -> None:
    """Be out of reach of the terminal of whoever started us."""
    try:
        os.setsid()
    except PermissionError:
        pass  # the session is our own already


def _take_attempt_lock(attempt_dir: str) -> int | None:
    """The lock on the attempt; none if a supervisor has it or had it, or the attempt has ended."""
    give_up = time.monotonic() + 2.0
    while True:
        lock = take_lock(os.path.join(attempt_dir, "lock"))
        if os.path.exists(os.path.join(attempt_dir, "exit.json")):
            return None
        # What another had begun, even one that was killed, is never begun again.
        if os.path.exists(os.path.join(attempt_dir, "state.json")):
            return None
        # Else it is held by one that is just beginning, or for an instant by one who only looks.
        if lock is not None or time.monotonic() > give_up:
            return lock
        time.sleep(0.005)  # flock has no wait with an end


class Stopped(Exception):
    """We were told to stop before the process was there."""


class Supervision:
    """The state of one attempt while it is supervised."""

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
        self._watch = Watch(attempt_dir, signals, self._nudger, values)
        self._sees_orphans = False
        self._tree: Tree | None = None
        self._port: _socket.socket | None = None
        self._requested_at = time.monotonic()  # the job's remaining time counts from here
        self._began = 0.0
        self._ended: float | None = None  # when its process did, by `time.monotonic`
        me = os.getpid()
        self._state: dict[str, Any] = {
            "stage": "starting",
            "message": "",
            "supervisor": {"pid": me, "identity": process_identity(me)},
            "process": None,
            "started": None,
        }

    def run(self) -> None:
        """From the first state to the exit record, and the tidying after it."""
        self._write_first_state()
        ending: dict[str, Any]
        try:
            # A stop that came before our state was there to be seen sent no signal.
            if os.path.exists(self._path("stop.json")):
                self._watch.begin_to_stop()
            self._hold_port()
            self._sees_orphans = linux.adopt_orphans()
            ending = self._run_process(*self._prepare())
        except Stopped:
            ending = {"reason": "Stopped", "message": "stopped before it was started"}
        except (StartError, RestoreError) as error:
            code = error.exit_code if isinstance(error, StartError) else None
            ending = {"reason": "StartFailed", "exit_code": code, "message": str(error)}
        except OSError as error:
            ending = {"reason": "StartFailed", "message": f"it could not be started: {error}"}
        self._watch.flush_log()
        self._write_exit(ending)
        if self._tree is not None:
            clean(self._tree, self._launch["work"])
        self._send_last_nudges()

    # Before the process

    def _prepare(self) -> tuple[list[str], dict[str, str], str]:
        """Everything the process needs: its command line, its environment, its directory."""
        launch = self._launch
        python = launch["python"]
        if launch.get("flaw"):
            raise StartError(launch["flaw"], 126)
        if launch.get("environment"):
            from windlass.worker.supervise.package_environment import Environment

            python = self._make_environment(Environment(launch["environment"], python))
        self._restore()
        cwd = os.path.normpath(os.path.join(launch["work"], launch["workdir"]))
        os.makedirs(cwd, exist_ok=True)
        if launch["volumes"]:
            from windlass.worker.supervise.volumes import link_volumes

            link_volumes(launch["volumes"], cwd)
        if launch["executable"]["type"] == "process":  # which has no `wl.output_dir` to make it
            os.makedirs(child_process.output_folder(launch), mode=0o700, exist_ok=True)
        environ = child_process.build_environ(launch, self._private, python, os.environ)
        argv = child_process.build_argv(launch, self._dir, python, environ, cwd)
        self._hold_port()
        self._check_stop()
        return argv, environ, cwd

    def _hold_port(self) -> None:
        """Keep our replica's port from others for as long as we live, server or no server.

        Not there yet if the attempt before listens still: it is gone when its code is taken out.
        """
        if not self._launch.get("hold") or self._port is not None:
            return
        from windlass.worker.supervise.ports import hold_port

        self._port = hold_port(self._launch["hold"])

    def _make_environment(self, environment: Environment) -> str:
        if environment.is_complete:
            return environment.python
        os.makedirs(os.path.dirname(environment.target), exist_ok=True)
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
        # Where packages come from may be said by the job: in a pod nothing else says it.
        variables = {**self._launch["env"], **(self._private.get("secrets") or {})}
        environ = environment.environ({**(self._private.get("environ") or os.environ), **variables})
        folder = os.path.dirname(environment.target)
        for argv in environment.commands():
            status = self._attend(Fork().become(argv, environ, folder, merged=True))
            self._check_stop()
            if status != 0:
                raise StartError("its packages could not be installed; its log says why", 1)
        environment.finish()

    def _restore(self) -> None:
        work = self._launch["work"]
        os.makedirs(work, exist_ok=True)
        # The attempt before may still be taking its code out. Held until we leave.
        self._wait_for_lock(work + ".lock", "the attempt before")
        if not self._launch.get("tree"):
            return
        try:
            with open(self._launch["tree"], "rb") as file:
                self._tree = read_tree(file.read())
        except FileNotFoundError:
            raise RestoreError("the list of the code's files is missing from the store") from None
        if len(self._tree) >= _LARGE_TREE:
            self._enter("restoring", f"restoring {len(self._tree)} files")
        restore(self._tree, work, self._launch["blobs"], self._is_stopping)

    def _wait_for_lock(self, path: str, whose: str) -> int:
        is_told = False
        while True:
            lock = take_lock(path)
            if lock is not None:
                return lock
            if not is_told:
                self._enter(self._state["stage"], f"waiting for {whose}")
                is_told = True
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
        """Run the user's process to its end; how it ended."""
        kills_before = out_of_memory.oom_kills()
        child = self._start(argv, environ, cwd)
        self._state["process"] = {"pid": child.pid, "identity": process_identity(child.pid)}
        self._state["started"] = time.time()
        self._began = time.clock_gettime(_STEADY)
        self._enter("running", "")
        if self._launch.get("deadline"):
            passed = time.monotonic() - self._requested_at
            self._watch.set_deadline(self._launch["deadline"] + _HEAD_START - passed)
        looks = Looks(self._dir, self._launch, environ, self._nudger)
        self._watch.look_in(looks.first_in, looks.take)
        family = Family(child.pid, sees_orphans=self._sees_orphans)
        departure = Departure(family)
        code = os.waitstatus_to_exitcode(self._attend(child, family, departure))
        self._ended = family.first_ended
        looks.take_last()
        ending: dict[str, Any] = {"exit_code": code}
        if code < 0:
            name = _signal_name(-code)
            ending = {"exit_code": 128 - code, "signal": name, "reason": "Signal"}
            is_by_others = code == -signal.SIGKILL and not departure.was_first_killed
            if is_by_others and out_of_memory.oom_kills() > kills_before:
                ending["message"] = out_of_memory.why_killed()
        if departure.was_first_asked:
            ending["reason"] = OUT_OF_TIME if self._watch.is_out_of_time else "Stopped"
        if self._watch.log.has_lost:
            why = self._watch.log.why_lost.replace("no space left", "the disk is full")
            ending.setdefault("message", f"{why}: some of its log was lost")
        return ending

    def _start(self, argv: list[str], environ: dict[str, str], cwd: str) -> Child:
        if self._launch["executable"]["type"] == "shell":
            terminal = self._watch.open_terminal(self._launch["executable"])
            try:
                # One that is forked now has the terminal's descriptors.
                return Fork().become(argv, environ, cwd, author=self._private, terminal=terminal)
            finally:
                terminal.let_go()
        fork = self._fork if self._fork and not self._fork.has_ended() else Fork()
        call = (
            self._dir
            if self._is_warm and child_process.can_call_here(self._launch, argv[0])
            else None
        )
        return fork.become(argv, environ, cwd, author=self._private, call=call)

    def _attend(
        self, child: Child, family: Family | None = None, departure: Departure | None = None
    ) -> int:
        """Carry a process's output to the log until it and all that came of it are gone."""
        watch = self._watch
        family = family or Family(child.pid, sees_orphans=self._sees_orphans)
        departure = departure or Departure(family)
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
                    due = departure.urge(now, watch.stop_by)
            elif is_left and not departure.is_hopeless(now):
                leftovers_by = leftovers_by or now + _GRACE_FOR_LEFTOVERS
                due = departure.urge(now, min(leftovers_by, watch.stop_by or leftovers_by))
            else:
                due = drained_by = drained_by or now + _DRAIN
                if not watch.is_reading or now >= drained_by:
                    break
            watch.wait(due)
        watch.close_streams()
        return family.first_status

    # What we tell

    def _path(self, name: str) -> str:
        return os.path.join(self._dir, name)

    def _enter(self, stage: str, message: str) -> None:
        self._state["stage"], self._state["message"] = stage, message
        self._write_state()
        # Of one that is over at once only the end is told: that is one look less at it.
        self._nudger.nudge(STATE, delay=_SHORT if stage == "running" else 0.0)

    def _write_first_state(self) -> None:
        """Nothing is begun before it is there: what has no state can safely be begun again."""
        self._insist(lambda: write_json(self._path("state.json"), self._state))

    def _write_state(self) -> None:
        try:
            write_json(self._path("state.json"), self._state)
        except OSError as error:
            # A full disk: the state is for others to look at, and we go on without.
            _complain(f"state.json: {error}")

    def _write_exit(self, ending: dict[str, Any]) -> None:
        """Write the exit record, however long the disk makes us wait for it."""
        record = {
            "exit_code": None,
            "signal": "",
            "reason": "",
            "message": "",
            "started": self._state["started"],
            "ended": self._end_time(),
            **ending,
        }
        self._insist(lambda: write_json(self._path("exit.json"), record, durable=True))
        self._nudger.nudge(STATE)

    def _end_time(self) -> float:
        """When its process ended, however long what came of it took to go.

        What ran took as long as it took, though the clock was set meanwhile.
        """
        if self._state["started"] is None:
            return time.time()
        since = 0.0 if self._ended is None else time.monotonic() - self._ended
        return float(self._state["started"] + time.clock_gettime(_STEADY) - self._began - since)

    def _insist(self, write: Callable[[], None]) -> None:
        """Write a file; while the disk is full, wait and try again."""
        pause = 0.05
        while True:
            try:
                return write()
            except FileNotFoundError:
                return None  # the whole attempt was deleted: nobody will ask
            except OSError:
                self._watch.wait(time.monotonic() + pause)
                pause = min(pause * 2, 2.0)

    def _send_last_nudges(self) -> None:
        until = time.monotonic() + _LAST_NUDGE
        while self._nudger.is_pending and time.monotonic() < until:
            self._watch.wait(until)


def _complain(text: str) -> None:
    """Say something where somebody may look for it: in a file that has no room either, perhaps."""
    try:
        sys.stderr.write(text + "\n")
    except OSError:
        pass


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
