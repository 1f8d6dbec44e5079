"""External trials: processes that Windlass did not start and that register themselves as trials.

The process does the work of a supervisor. It takes the attempt's lock, so that no second process
can be the same attempt. It writes its process identity to `state.json`, and an exit record when the
trial ends. The trial is running for as long as the kernel lists the process. There is no heartbeat,
so a busy or paused process still counts as running.
"""

from __future__ import annotations

import os
import time

from windlass.worker.common.atomic_files import (
    retry_write,
    take_lock,
    write_json,
    write_json_once,
)
from windlass.worker.common.file_reads import read_json
from windlass.worker.common.nudge import STATE, ServerAddress, send_once
from windlass.worker.common.process_identity import process_identity
from windlass.worker.program.failure import Failure
from windlass.worker.supervise.child_process import replica_marker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXTERNAL = "WINDLASS_EXTERNAL"  # set in external trials, which reserve no capacity

_LOCK_PATIENCE = 2.0  # seconds to wait for the lock, which `is_locked` takes for an instant

_here: Presence | None = None


class Presence:
    """Registers the current process as a trial until `end` is called."""

    def __init__(self, attempt_dir: str) -> None:
        launch = read_json(os.path.join(attempt_dir, "launch.json"))
        if launch is None:
            raise FileNotFoundError(f"there is no launch file in {attempt_dir}")
        self.owner = os.getpid()
        self._dir = attempt_dir
        self._launch = launch
        self._lock: int | None = None
        self._before: dict[str, str | None] = {}
        self._began = time.monotonic()
        self._started = time.time()

    @property
    def is_here(self) -> bool:
        """Return whether the current process registered itself and is not merely a fork."""
        return self.owner == os.getpid() and self._lock is not None

    def begin(self) -> None:
        """Register this process as the trial and set a trial's environment variables."""
        global _here
        self._lock = _take(os.path.join(self._dir, "lock"))
        me = {"pid": self.owner, "identity": process_identity(self.owner)}
        state = {
            "stage": "running",
            "message": "",
            "supervisor": me,
            "process": me,
            "started": self._started,
        }
        write_json(os.path.join(self._dir, "state.json"), state)
        for name, value in self._variables().items():
            self._before[name] = os.environ.get(name)
            os.environ[name] = value
        _here = self
        self._nudge()

    def end(self, error: BaseException | None) -> None:
        """Write the exit record and end the registration. Repeated calls do nothing."""
        global _here
        if not self.is_here:
            return
        ended = self._started + time.monotonic() - self._began
        path = os.path.join(self._dir, "exit.json")
        try:
            record = {
                "exit_code": 0,
                "signal": "",
                "reason": "",
                "message": "",
                "started": self._started,
                "ended": ended,
                **self._outcome(error),
            }
            retry_write(lambda: write_json_once(path, record), "the end of the trial")
        except FileNotFoundError:
            if os.path.isdir(self._dir):
                raise  # otherwise the trial was stopped and deleted, which is not an error
        finally:  # if the record cannot be written, the trial is lost, but the program continues
            self._leave()
            _here = None
            self._nudge()

    def _outcome(self, error: BaseException | None) -> dict[str, Any]:
        if error is None:
            return {}
        if isinstance(error, KeyboardInterrupt):
            return {"exit_code": 130, "signal": "SIGINT", "reason": "Interrupted"}
        if isinstance(error, SystemExit):
            return _of_exit(error)
        from windlass.worker.program.pickle_values import dumps_exception

        failure = Failure(self._dir, self._launch, ())
        failure.note(error)
        failure.record(error, dumps_exception)
        return {"exit_code": 1}

    def _variables(self) -> dict[str, str]:
        key = self._launch["key"]
        return {
            "WINDLASS_TRIAL_ID": str(key["trial_id"]),
            "WINDLASS_ROLE": key["role"],
            "WINDLASS_INDEX": str(key["index"]),
            "WINDLASS_ATTEMPT": str(key["attempt"]),
            "WINDLASS_REPLICA": replica_marker(key),
            "WINDLASS_RANK": "0",
            "WINDLASS_WORLD_SIZE": "1",
            "WINDLASS_CHECKPOINTS": self._launch["checkpoints"],
            EXTERNAL: "1",
        }

    def _leave(self) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self.let_go()

    def let_go(self) -> None:
        """Close this process's descriptor of the attempt's lock.

        In a fork, this does not release the lock, because the registered process still holds it.
        """
        if self._lock is not None:
            if _is_at(self._lock, os.path.join(self._dir, "lock")):
                os.close(self._lock)
            self._lock = None

    def _nudge(self) -> None:
        import json

        message = json.dumps({**self._launch["key"], "about": STATE}).encode()
        send_once(message, ServerAddress(self._launch["server_file"]).find())


def _take(path: str) -> int:
    give_up = time.monotonic() + _LOCK_PATIENCE
    while True:
        lock = take_lock(path)
        if lock is not None:
            return lock
        if time.monotonic() > give_up:
            raise TimeoutError(f"another process holds {path}")
        time.sleep(0.002)  # flock has no timeout


def _is_at(descriptor: int, path: str) -> bool:
    """Return whether a descriptor still refers to the file at `path`.

    The program may have closed the descriptor, and its number may now belong to another file.
    """
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def _of_exit(error: SystemExit) -> dict[str, Any]:
    """Return the exit record for a program that calls `sys.exit`.

    >>> [_of_exit(SystemExit(code))["exit_code"] for code in (None, 0, 3, "no data")]
    [0, 0, 3, 1]
    """
    if error.code is None or isinstance(error.code, int):
        return {"exit_code": (error.code or 0) & 0xFF}
    return {"exit_code": 1, "message": str(error.code)[:1000]}


def _after_fork() -> None:
    if _here is not None:
        _here.let_go()


os.register_at_fork(after_in_child=_after_fork)
