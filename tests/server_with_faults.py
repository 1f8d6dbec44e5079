"""A real server with a rig: it dies at a chosen step, or keeps count of what it does.

`python server_with_faults.py HOME READY_FD` serves a home like the embedded server does, with the
rig that WINDLASS_RIG names, or with several, between semicolons:

- `die:N` sends itself SIGKILL at the N-th step of the way from a decision to its processes:
  just before and just after each status is stored, and each attempt is made
- `die-counting:N` does so at the N-th step of counting what trials report: before and after it is
  put into the transaction, and after the commit
- `die-writing:N` does so at the N-th step of writing to the database, whatever it is: before it
  begins, and after the commit, when nobody has been told
- `die-in-cluster:N` does so at the N-th step of what it writes to a cluster: before and after each
- `die-after:METHOD:KIND` does so when the cluster has answered the first of such requests
- `hold:METHOD:KIND:FOLDER` leaves `held` in a folder before the first of them, and waits for `go`;
  `done` is left when it was answered
- `stubborn` waits for hours before it tries again what failed in a cluster, unless it is woken
- `stuck-after:SECONDS` takes a pod for gone that long after it was to be gone, in place of a minute
- `count:FILE` appends to a file the uid of each job that is looked at by two at a time
- `note:FILE` appends to a file what it asks of clusters, as rights are spelt
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RIG = "WINDLASS_RIG"
PATIENCE = 120.0


def start_rigged(home: Path, rig: str) -> subprocess.Popen[bytes]:
    """Start the server of a home with a rig; it is ready when this returns."""
    home.mkdir(mode=0o700, exist_ok=True)
    reader, writer = os.pipe()
    with open(home / "server.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, str(home), str(writer)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, RIG: rig, "WINDLASS_DETACHED": "1"},
            pass_fds=(writer,),
            start_new_session=True,
        )
    os.close(writer)
    with open(reader, "rb") as pipe:
        assert pipe.read() == b"ready", (home / "server.log").read_text()
    return process


class Rig:
    """Has the server die at a step: each begins before or after something that it does."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._steps = itertools.count(1)

    def around(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def acting(*args: Any, **kwargs: Any) -> Any:
            self._perhaps_die()
            done = act(*args, **kwargs)
            self._perhaps_die()
            return done

        return acting

    def _perhaps_die(self) -> None:
        if next(self._steps) == self._step:
            _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_at(step: int) -> None:
    from windlass.runtimes.local.runtime import LocalRuntime
    from windlass.server.operations.controller_store import ControllerStore

    rig = Rig(step)
    LocalRuntime.create = rig.around(LocalRuntime.create)  # type: ignore[method-assign]
    ControllerStore.save = rig.around(ControllerStore.save)  # type: ignore[method-assign]


def _die_counting(step: int) -> None:
    from windlass.server.stores.metrics import summaries
    from windlass.server.stores.trials.store import TrialStore

    rig = Rig(step)
    summaries.add = rig.around(summaries.add)
    TrialStore.note = rig.around(TrialStore.note)  # type: ignore[method-assign]


def _die_writing(step: int) -> None:
    from windlass.server.db.sqlite import SqliteDatabase

    rig = Rig(step)
    around = rig.around(SqliteDatabase._write_group)
    SqliteDatabase._write_group = around  # type: ignore[method-assign]


def die_in_cluster(step: int, *aside: str) -> None:
    """Have it die before or after something that it writes to the cluster, some paths aside."""
    from windlass.kube.api.connection import Connection

    rig, ask = Rig(step), Connection.request
    write = rig.around(ask)

    def request(self: Connection, method: str, path: str, *more: Any, **options: Any) -> Any:
        is_aside = any(each in path for each in aside)
        act = ask if method == "GET" or is_aside else write
        return act(self, method, path, *more, **options)

    Connection.request = request  # type: ignore[method-assign]


def _at_request(
    which: str, before: Callable[[], None] | None = None, after: Callable[[], None] | None = None
) -> None:
    """Have something done before or after the first request of that method and kind."""
    from windlass.kube.api.connection import Connection

    method_wanted, _, kind = which.partition(":")
    ask, first = Connection.request, threading.Lock()

    def request(self: Connection, method: str, path: str, *more: Any, **options: Any) -> Any:
        is_it = method == method_wanted and path.endswith(f"/{kind}")
        is_first = is_it and first.acquire(blocking=False)
        if is_first and before:
            before()
        answer = ask(self, method, path, *more, **options)
        if is_first and after:
            after()
        return answer

    Connection.request = request  # type: ignore[method-assign]


def hold(which: str, folder: str) -> None:
    """Have the first request of that method and kind wait until a test lets it go."""

    def wait() -> None:
        Path(folder, "held").touch()
        while not Path(folder, "go").exists():
            time.sleep(0.01)

    _at_request(which, before=wait, after=Path(folder, "done").touch)


def _be_stubborn() -> None:
    from windlass.runtimes.kubernetes import retry_queue

    retry_queue.FIRST_PAUSE = retry_queue.LONGEST_PAUSE = 10_000.0


def _take_for_gone_after(seconds: float) -> None:
    from windlass.runtimes.kubernetes import pod_attempt

    pod_attempt.STUCK = seconds


def count_overlaps(path: str) -> None:
    """Have each job written down that is looked at by two at a time."""
    from windlass.controller.controller import Controller

    look, at_work, guard = Controller.reconcile, set[str](), threading.Lock()

    def reconcile(self: Controller, uid: str) -> bool:
        with guard:
            if uid in at_work:
                with open(path, "a") as file:
                    file.write(f"{uid}\n")
            at_work.add(uid)
        try:
            return look(self, uid)
        finally:
            with guard:
                at_work.discard(uid)

    Controller.reconcile = reconcile  # type: ignore[method-assign]


def note_deeds(file: str) -> None:
    """Have all that is asked of a cluster written down, as rights are spelt."""
    from windlass.kube.api.connection import Connection
    from windlass.kube.permission import requested_permission

    ask = Connection.open

    def open_noting(self: Connection, method: str, path: str, *more: Any, **options: Any) -> Any:
        deed = requested_permission(method, path)
        if deed is not None:
            is_watch = "watch" in (options.get("query") or {})
            with open(file, "a") as notes:
                notes.write(f"{'watch' if is_watch else deed.verb} {deed.resource}\n")
        return ask(self, method, path, *more, **options)

    Connection.open = open_noting  # type: ignore[method-assign]


@contextmanager
def rigged(home: Path, rig: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server with a rig, which is gone in the end."""
    process = start_rigged(home, rig)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)


def _rig(kind: str, what: str) -> None:
    {
        "die": lambda: _die_at(int(what)),
        "die-counting": lambda: _die_counting(int(what)),
        "die-writing": lambda: _die_writing(int(what)),
        "die-in-cluster": lambda: die_in_cluster(int(what), "/selfsubject"),
        "die-after": lambda: _at_request(what, after=_die),
        "hold": lambda: hold(*what.rsplit(":", 1)),
        "stubborn": _be_stubborn,
        "stuck-after": lambda: _take_for_gone_after(float(what)),
        "count": lambda: count_overlaps(what),
        "note": lambda: note_deeds(what),
    }[kind]()


def _main() -> int:
    for each in os.environ.pop(RIG).split(";"):
        _rig(*each.partition(":")[::2])
    from windlass.runtimes.local.warm_launchers import Launchers
    from windlass.server.startup import serve_home

    launchers = Launchers()
    launchers.prepare(sys.executable, os.environ)
    return serve_home(sys.argv[1], int(sys.argv[2]), launchers)


if __name__ == "__main__":
    sys.exit(_main())
