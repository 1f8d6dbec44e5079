"""Converts a finished trial's record to its return value or error."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from windlass.client.resources.trial.crash_output import CRASHES, MOST_LINES, crash_lines
from windlass.client.resources.trial.failure_tips import last_lines, limit_name, tip_for
from windlass.client.resources.trial.replica_names import has_several, name_of
from windlass.model.errors import RemoteError, SerializationError, TrialFailed, TrialStopped
from windlass.model.job import FunctionCall
from windlass.model.records import ErrorInfo, TrialRecord, TrialState
from windlass.model.text.quantities import format_duration
from windlass.worker.blobs.digest import kind_of

if TYPE_CHECKING:
    from windlass.client.resources.trial.trial import Trial

_SERIALIZATION = "windlass.SerializationError"  # the worker records this error name


class RemoteTraceback(Exception):
    """Shows a trial's traceback as the cause of an exception.

    This class is needed before Python 3.11, in which exceptions cannot have notes that contain the
    traceback.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


class Outcome(NamedTuple):
    """A trial's outcome, which is a return value or an error."""

    value: Any = None
    error: BaseException | None = None

    def get(self) -> Any:
        """Return the value, or raise the error.

        The remote traceback is attached to the error as a note.
        """
        if self.error is not None:
            raise self.error
        return self.value


def outcome_of(
    trial: TrialRecord,
    result: Callable[[], bytes],
    error: Callable[[], bytes],
    tail: Callable[[], Sequence[str]],
    is_shown: Callable[[str], bool] = lambda _text: False,
) -> Outcome:
    """Return a finished trial's outcome.

    `result`, `error` and `tail` fetch the pickled value, the pickled exception and the last log
    lines. They are called only if needed. If one replica caused the failure, the error shows that
    replica's last lines. `is_shown` returns whether the user has already seen a text, which the
    error then does not repeat.
    """
    if trial.state is TrialState.SUCCEEDED:
        if trial.result is not None:
            return _unpickle_result(trial, trial.result.digest, result())
        return Outcome(error=_no_value(trial) if lacks_value(trial) else None)
    if trial.error is not None and trial.reason not in ("Stopped", "DeadlineExceeded"):
        return Outcome(error=_remote_exception(trial, trial.error, error, is_shown))
    lines = trial.cause.lines if trial.cause else tail()
    failure = trial_error(trial, lines)
    failure.is_tail_shown = is_shown("\n".join(last_lines(lines)))
    return Outcome(error=failure)


def tail_of(trial: Trial[Any]) -> list[str]:
    """Return the last lines of a trial's log, which explain its failure.

    After a crash of C code, return more lines, because they may contain the stacks of many threads.
    """
    is_crash = trial.record.signal in CRASHES
    return list(trial.logs(tail=MOST_LINES if is_crash else 20))


def trial_error(trial: TrialRecord, lines: Sequence[str]) -> TrialFailed:
    """Build the error for a trial whose process failed or was stopped."""
    stack = crash_lines(lines)[:20] if trial.signal in CRASHES else []
    shown = stack or last_lines(lines)
    kind = TrialStopped if trial.state is TrialState.STOPPED else TrialFailed
    cause = trial.cause if has_several(trial) else None
    of_whom = f" --role {cause.role} --index {cause.index}" if cause else ""
    what = f"All that {name_of(cause)} wrote" if cause else "All of its log"
    hints = [
        tip_for(trial, "\n".join(shown)) if kind is TrialFailed else None,
        f"{what}: windlass logs {trial.id}{of_whom}" if lines else None,
    ]
    return kind(
        f"Trial {trial.id} ({trial.name}) {how_it_ended(trial)}.",
        hint="\n".join(hint for hint in hints if hint) or None,
        trial_id=trial.id,
        exit_code=trial.exit_code,
        signal=trial.signal or None,
        log_tail=shown,
        role=cause.role if cause else None,
        index=cause.index if cause else None,
        attempt=cause.attempt if cause else None,
    )


def lacks_value(trial: TrialRecord) -> bool:
    """Return whether a function's process exited with code 0 before the function returned."""
    is_function = isinstance(trial.spec.roles[0].executable, FunctionCall)
    return trial.state is TrialState.SUCCEEDED and is_function and trial.result is None


def how_it_ended(trial: TrialRecord) -> str:
    """Describe a trial's end in a few words, as text to put after the trial's name."""
    if trial.state is TrialState.SUCCEEDED:
        return "succeeded"
    if trial.state is TrialState.STOPPED:
        is_plain = trial.message in ("", "stopped")
        return "was stopped" + ("" if is_plain else f": {trial.message}")
    if trial.reason == "DeadlineExceeded":
        return _out_of_time(trial)
    return f"failed: {trial.message}" if trial.message else "failed"


def _out_of_time(trial: TrialRecord) -> str:
    """Describe how a trial exceeded its time limit.

    If the trial never started, the text says why it was waiting.
    """
    limit = trial.spec.active_deadline
    text = "ran out of time"
    if limit:
        text += f" ({limit_name(trial.spec)} {format_duration(limit)})"
    if trial.started is not None:
        return text
    _, colon, waited_for = trial.message.partition(": ")
    return f"{text} before it began{colon}{waited_for}"


def _no_value(trial: TrialRecord) -> TrialFailed:
    return TrialFailed(
        f"Trial {trial.id} ({trial.name}) ended without returning: it called sys.exit(0) or "
        "os._exit(0).",
        hint="Return from the function to give a value back.",
        trial_id=trial.id,
        exit_code=0,
    )


def _unpickle_result(trial: TrialRecord, digest: str, data: bytes) -> Outcome:
    if kind_of(digest).digest_of(data) != digest:
        return Outcome(
            error=SerializationError(
                f"The value of trial {trial.id} is damaged: its content does not match its digest.",
                hint=f"Check the store: windlass doctor --contents\n"
                f"Repeat the trial: windlass rerun {trial.id}",
            )
        )
    try:
        return Outcome(pickle.loads(data))  # noqa: S301 -- the user's own trial returned it
    except Exception as error:  # noqa: BLE001 -- unpickling runs any code, so any error is possible
        unreadable = SerializationError(
            f"The value of trial {trial.id} cannot be read here: {type(error).__name__}: {error}.",
            hint=_missing_here(error) or f"The bytes are kept: windlass result {trial.id} --raw",
        )
        unreadable.__cause__ = error
        return Outcome(error=unreadable)


def _remote_exception(
    trial: TrialRecord,
    info: ErrorInfo,
    fetch: Callable[[], bytes],
    is_shown: Callable[[str], bool],
) -> BaseException:
    if info.type == _SERIALIZATION:
        return SerializationError(
            f"Trial {trial.id} ({trial.name}): {info.message}",
            hint="Return plain data: numbers, lists, dicts, arrays, dataclasses.",
        )
    where = f", {name_of(trial.cause)}" if trial.cause and has_several(trial) else ""
    if is_shown(info.traceback):
        remote = f"Raised in trial {trial.id} ({trial.name}){where}. See: windlass logs {trial.id}"
    else:
        remote = f"Traceback in trial {trial.id} ({trial.name}){where}:\n{info.traceback.rstrip()}"
    tip = tip_for(trial, f"{info.type}: {info.message}\n{info.traceback}")
    exception: BaseException | None = None
    if info.pickle is not None:
        try:
            exception = pickle.loads(fetch())  # noqa: S301 -- the user's own trial raised it
        except Exception:  # noqa: BLE001 -- an exception that cannot be rebuilt here becomes text
            exception = None
    if not isinstance(exception, BaseException):
        exception = RemoteError(
            f"{info.type}: {info.message}",
            type_name=info.type,
            text=info.message,
            traceback=info.traceback,
        )
    for note in (remote, tip):
        if note:
            _add_note(exception, note)
    return exception


def _add_note(exception: BaseException, note: str) -> None:
    if sys.version_info >= (3, 11):
        exception.add_note(note)
        return
    first, seen = exception, {id(exception)}
    while first.__cause__ is not None and id(first.__cause__) not in seen:
        first = first.__cause__
        seen.add(id(first))
    if isinstance(first, RemoteTraceback):
        first.text += f"\n{note}"
    else:
        first.__cause__ = RemoteTraceback(note)


def _missing_here(error: Exception) -> str | None:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"Install {error.name!r} here too, or return plain data."
    return None
