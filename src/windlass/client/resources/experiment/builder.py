"""Keeps an experiment open on the server while this program adds trials.

Each experiment has at most one builder per connection. A `with` block and all generators (user
functions that add trials) share the builder's lease, which keeps the experiment open. Generators
run in this program. The block raises the failures of all generators.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from windlass.client.connection.event_stream import insist
from windlass.client.connection.experiment_lease import ExperimentLease
from windlass.client.connection.transport import Transport, request_path
from windlass.client.resources.trial.trial import Trial
from windlass.model.errors import LaunchFailed, WindlassError
from windlass.model.records import ErrorInfo, ExperimentRecord, TrialRecord
from windlass.model.requests import Built
from windlass.worker.program.failure import error_message, shorten

if TYPE_CHECKING:
    import asyncio

_MOST_LISTED = 10
_LONGEST_LINE = 1000

_buildings: WeakKeyDictionary[Transport, dict[int, ExperimentBuilder]] = WeakKeyDictionary()
_lock = threading.Lock()  # protects `_buildings` and each builder's number of users
# The event loop for async generators outside of any `async with` block.
_loop: asyncio.AbstractEventLoop | None = None


class Failure(NamedTuple):
    """A generator that raised an exception, with its trial."""

    trial: TrialRecord
    error: BaseException


def hold(transport: Transport, experiment: ExperimentRecord) -> ExperimentBuilder:
    """Return an experiment's builder, which keeps the experiment open with a lease.

    The builder keeps the lease until each `hold` has been matched by a call of `release`.
    """
    with _lock:
        if not _buildings:
            atexit.unregister(_finish)
            atexit.register(_finish)
        by_id = _buildings.setdefault(transport, {})
        building = by_id.get(experiment.id)
        if building is None:
            building = by_id[experiment.id] = ExperimentBuilder(transport, experiment)
        building.users += 1
    try:
        building.begin()
    except BaseException:  # Ctrl-C must release the lease, too
        building.release()
        raise
    return building


def find_builder(transport: Transport, experiment_id: int) -> ExperimentBuilder | None:
    """Return an experiment's builder, or None if this program is not building the experiment."""
    with _lock:
        return _buildings.get(transport, {}).get(experiment_id)


class ExperimentBuilder:
    """Keeps an experiment open on the server and runs its generators in this program.

    Generators are user functions that add trials to the experiment.
    """

    def __init__(self, transport: Transport, experiment: ExperimentRecord) -> None:
        self._transport = transport
        self.experiment = experiment
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._holding: ExperimentLease | None = None
        self.users = 0  # the number of blocks, generators and searches that use the lease
        self._blocks = 0
        # Running generators by trial id. Only async generators have a future.
        self._running: dict[int, Future[None] | None] = {}
        self._started: set[int] = set()
        self._failures: list[Failure] = []
        self._their_loops: list[asyncio.AbstractEventLoop] = []

    # -- holding ----------------------------------------------------------------------

    def begin(self) -> None:
        """Take the lease on the experiment, unless this builder already holds it."""
        with self._lock:
            if self._holding is None:
                holding = ExperimentLease(self._transport, self.experiment.id)
                holding.begin()
                self._holding = holding

    @property
    def holder(self) -> str:
        """The id that identifies the lease's holder on the server."""
        return self._holding.holder if self._holding is not None else ""

    def release(self) -> None:
        """Release the lease, unless another part of this program still needs it."""
        with _lock:
            self.users -= 1
            if self.users:
                return
            _buildings.get(self._transport, {}).pop(self.experiment.id, None)
        if self._holding is not None:
            self._holding.release()

    # -- blocks -----------------------------------------------------------------------

    def enter(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Record that a `with` block of the experiment has started.

        Async generators inside an `async with` block run on the block's event loop.
        """
        with self._lock:
            self._blocks += 1
            if loop is not None:
                self._their_loops.append(loop)

    def leave(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Record that a `with` block of the experiment has ended."""
        with self._lock:
            self._blocks -= 1
            if loop is not None:
                self._their_loops.remove(loop)
        self.release()

    # -- generators -------------------------------------------------------------------

    def is_started(self, trial_id: int) -> bool:
        """Return whether this program started a trial's generator."""
        return trial_id in self._started

    def start(
        self, trial: Trial[Any], function: Callable[..., Any], arguments: Mapping[str, Any]
    ) -> None:
        """Run a trial's generator in a thread. The caller must hold the lease."""
        with self._lock:
            self._started.add(trial.id)
            self._running[trial.id] = None
        threading.Thread(
            target=self._run,
            args=(trial, function, arguments),
            name=f"windlass-generator-{trial.id}",
            daemon=True,  # Ctrl-C must end the program; otherwise, `_finish` waits
        ).start()

    def start_async(
        self, trial: Trial[Any], function: Callable[..., Any], arguments: Mapping[str, Any]
    ) -> None:
        """Run an async generator.

        Inside an `async with` block, it runs on the block's event loop. Outside, it runs on an
        event loop of this module.
        """
        import asyncio

        with self._lock:
            self._started.add(trial.id)
            self._running[trial.id] = None
            loop = self._their_loops[-1] if self._their_loops else _own_loop()
            task = asyncio.run_coroutine_threadsafe(
                self._run_async(trial, function, arguments), loop
            )
            self._running[trial.id] = task

    def join(self) -> None:
        """Wait until all generators in this program have returned."""
        with self._changed:
            while self._running:
                self._changed.wait()

    @property
    def running(self) -> list[int]:
        """The ids of trials whose generators are still running."""
        with self._lock:
            return list(self._running)

    def take_failures(self) -> list[Failure]:
        """Return the generator failures since the last call."""
        with self._lock:
            taken, self._failures = self._failures, []
            return taken

    def abandon(self, why: BaseException) -> list[int]:
        """Abandon all running generators and return their trials' ids.

        The server marks these trials as failed. Trials that the generators have added continue.
        """
        with self._changed:
            given_up, self._running = self._running, {}
            self._changed.notify_all()
        for trial_id, task in given_up.items():
            if task is not None:
                task.cancel()
            message = _text(error_message(why)) or "interrupted"
            error = ErrorInfo(type=type(why).__name__, message=message)
            try:
                self._report(trial_id, error)
            except WindlassError:
                pass  # the server notices that the lease has ended
            self.release()
        return list(given_up)

    def _run(
        self, trial: Trial[Any], function: Callable[..., Any], arguments: Mapping[str, Any]
    ) -> None:
        failure: BaseException | None = None
        try:
            function(trial, **arguments)
        except BaseException as error:  # noqa: BLE001 -- raised at the end of the block
            failure = error
        self._conclude(trial, failure)

    async def _run_async(
        self, trial: Trial[Any], function: Callable[..., Any], arguments: Mapping[str, Any]
    ) -> None:
        from windlass.client.connection.async_wait import in_thread

        failure: BaseException | None = None
        try:
            await function(trial, **arguments)
        except BaseException as error:  # noqa: BLE001 -- raised at the end of the block
            failure = error
        name = f"windlass-built-{trial.id}"
        await in_thread(lambda: self._conclude(trial, failure), lambda: None, name)

    def _conclude(self, trial: Trial[Any], failure: BaseException | None) -> None:
        """Report a generator's end to the server, and notify waiting threads."""
        with self._lock:
            if trial.id not in self._running:
                return  # the generator was abandoned
        try:
            self._report(trial.id, None if failure is None else described(failure))
        except WindlassError as error:
            failure = failure or error
        with self._changed:
            if failure is not None and self._blocks:
                self._failures.append(Failure(trial.record, _without_ours(failure)))
            is_ours_to_report = failure is not None and not self._blocks
        if is_ours_to_report and failure is not None:
            _print(trial.record, failure)
        self.release()
        with self._changed:
            self._running.pop(trial.id, None)
            self._changed.notify_all()

    def _report(self, trial_id: int, error: ErrorInfo | None) -> None:
        path = request_path("trials", trial_id, "built")
        body = Built(error=error)
        insist(lambda: self._transport.ask("POST", path, TrialRecord, body=body))


def launch_failed(experiment: ExperimentRecord, failures: list[Failure]) -> LaunchFailed:
    """Build one error for all failed generators, caused by the first failure."""
    lines = [
        f"trial {failure.trial.id} ({failure.trial.name}): {_line(failure.error)}"
        for failure in failures
    ]
    more = len(lines) - _MOST_LISTED
    if more > 0:
        lines = [*lines[:_MOST_LISTED], f"and {more} more"]
    first = failures[0].trial.id
    number = "A generator" if len(failures) == 1 else f"{len(failures)} generators"
    error = LaunchFailed(
        f"{number} of experiment {experiment.id} ({experiment.name}) failed.",
        hint="\n".join(
            [*lines, f"Trials that were already added continue. See: windlass show {first}"]
        ),
        errors=[failure.error for failure in failures],
    )
    error.__cause__ = failures[0].error
    return error


def described(error: BaseException) -> ErrorInfo:
    """Describe a generator's exception for the record of its trial.

    The traceback omits Windlass frames above the generator.
    """
    kind = type(error)
    is_plain = kind.__module__ in ("builtins", "__main__")
    return ErrorInfo(
        type=kind.__qualname__ if is_plain else f"{kind.__module__}.{kind.__qualname__}",
        message=_text(error_message(error)),
        traceback=_text(
            "".join(traceback.format_exception(kind, error, generator_traceback(error)))
        ),
    )


def _without_ours(error: BaseException) -> BaseException:
    return error.with_traceback(generator_traceback(error))


def generator_traceback(error: BaseException) -> TracebackType | None:
    """Return an exception's traceback without the frames of this module."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return frames


def _text(text: str) -> str:
    """Return text as valid Unicode of limited length, so that a request can contain it."""
    return shorten(text.encode("utf-8", "backslashreplace").decode())


def _line(error: BaseException) -> str:
    first = shorten((error_message(error).splitlines() or [""])[0], _LONGEST_LINE)
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _print(trial: TrialRecord, error: BaseException) -> None:
    """Print the failure of a generator that runs outside of any `with` block."""
    trace = described(error).traceback.rstrip()
    text = f"The generator of trial {trial.id} ({trial.name}) failed:\n{trace}\n"
    with contextlib.suppress(OSError, ValueError, AttributeError):  # stderr is closed
        encoding = sys.stderr.encoding or "ascii"
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()


def _own_loop() -> asyncio.AbstractEventLoop:
    global _loop
    import asyncio

    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            name = "windlass-generators"
            threading.Thread(target=_loop.run_forever, name=name, daemon=True).start()
        return _loop


def _forget() -> None:
    """Forget all builders after a fork, because they belong to the parent process."""
    global _buildings, _lock, _loop
    _buildings, _lock, _loop = WeakKeyDictionary(), threading.Lock(), None


os.register_at_fork(after_in_child=_forget)


def _finish() -> None:
    """At program exit, wait for generators that run outside of any `with` block."""
    for building in [item for by_id in list(_buildings.values()) for item in by_id.values()]:
        try:
            building.join()
        except KeyboardInterrupt as error:
            building.abandon(error)
