"""A real server with injected faults: it dies at a chosen step, or counts its steps.

`python server_with_faults.py HOME READY_FD` serves a home like the embedded server does, with the
rig that WINDLASS_RIG names, or with several rigs, separated by semicolons:

- `die:N` sends itself SIGKILL at the N-th step between a decision and its processes: just before
  and just after it stores a status or creates an attempt
- `die-counting:N` dies at the N-th step of aggregating reports of trials: before and after each is
  added to the transaction, and after the commit
- `die-writing:N` dies at the N-th write to the database: before the transaction begins, and after
  the commit, before any notification
- `die-submitting:N` dies at the N-th step of storing small blobs of new trials: before and after
  private files, rows of blobs, their commit, and the files that the rows become
- `die-in-cluster:N` dies at the N-th write to a cluster: before and after each
- `die-after:METHOD:KIND` dies after the cluster has answered the first such request
- `hold:METHOD:KIND:FOLDER` writes `held` to a folder before the first such request, waits for `go`,
  and writes `done` after the response
- `stubborn` waits for hours before it retries a failed request to a cluster, unless it is woken
- `stuck-after:SECONDS` treats a pod as gone this long after its deletion was due (default: 60)
- `count:FILE` appends to a file the uid of each job that two workers reconcile at the same time
- `note:FILE` appends to a file each request to a cluster, spelled like a permission
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
    """Start the server of a home with a rig. The server is ready when this function returns."""
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
    """Kills the server at a step. Each step is just before or just after an action."""

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


def _die_submitting(step: int) -> None:
    from windlass.server.db.sqlite import SqliteDatabase
    from windlass.server.stores.blobs import unwritten
    from windlass.server.stores.blobs.files import FileBlobStore
    from windlass.server.stores.private_files import PrivateFiles

    unwritten._QUIET = 0.05  # write the files while the test runs
    rig = Rig(step)
    steps: list[tuple[Any, str]] = [
        (PrivateFiles, "keep"),
        (unwritten.UnwrittenBlobs, "insert"),
        (unwritten.UnwrittenBlobs, "inserted"),
        (FileBlobStore, "write_out"),
        (FileBlobStore, "forget_unwritten"),
        (SqliteDatabase, "_write_group"),
    ]
    for owner, name in steps:
        setattr(owner, name, rig.around(getattr(owner, name)))


def die_in_cluster(step: int, *aside: str) -> None:
    """Kill the server before or after a write to the cluster, except for some paths."""
    from windlass.kube.api.connection import Connection

    rig, ask = Rig(step), Connection.request
    write = rig.around(ask)

    def request(self: Connection, method: str, path: str, *more: Any, **options: Any) -> Any:
        is_aside = any(path_part in path for path_part in aside)
        act = ask if method == "GET" or is_aside else write
        return act(self, method, path, *more, **options)

    Connection.request = request  # type: ignore[method-assign]


def _at_request(
    which: str, before: Callable[[], None] | None = None, after: Callable[[], None] | None = None
) -> None:
    """Run a function before or after the first request of that method and kind."""
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
    """Hold the first request of that method and kind until a test releases it."""

    def wait() -> None:
        Path(folder, "held").touch()
        while not Path(folder, "go").exists():
            time.sleep(0.01)

    _at_request(which, before=wait, after=Path(folder, "done").touch)


def _be_stubborn() -> None:
    from windlass.runtimes.kubernetes import retry_queue

    retry_queue.FIRST_PAUSE = retry_queue.LONGEST_PAUSE = 10_000.0


def _take_for_gone_after(seconds: float) -> None:
    from windlass.runtimes.kubernetes.attempts import pod_attempt

    pod_attempt.STUCK = seconds


def count_overlaps(path: str) -> None:
    """Write down each job that two workers reconcile at the same time."""
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
    """Write down each request to a cluster, spelled like a permission."""
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
    """A server with a rig. It is stopped at the end."""
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
        "die-submitting": lambda: _die_submitting(int(what)),
        "die-in-cluster": lambda: die_in_cluster(int(what), "/selfsubject"),
        "die-after": lambda: _at_request(what, after=_die),
        "hold": lambda: hold(*what.rsplit(":", 1)),
        "stubborn": _be_stubborn,
        "stuck-after": lambda: _take_for_gone_after(float(what)),
        "count": lambda: count_overlaps(what),
        "note": lambda: note_deeds(what),
    }[kind]()


def _main() -> int:
    for part in os.environ.pop(RIG).split(";"):
        _rig(*part.partition(":")[::2])
    from windlass.runtimes.local.warm_launchers import Launchers
    from windlass.server.startup import serve_home

    launchers = Launchers()
    launchers.prepare(sys.executable, os.environ)
    os.umask(0o077)
    return serve_home(sys.argv[1], int(sys.argv[2]), launchers)


if __name__ == "__main__":
    sys.exit(_main())
