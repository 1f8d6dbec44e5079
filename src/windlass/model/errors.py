"""Windlass's public errors, which all derive from `WindlassError`.

An error states what happened, why, and what to do next. The first line is the problem, and the
indented lines below it are the remedy. This file imports nothing at run time, so that raising an
error never costs an import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

_MOST_SHOWN = 200  # the most characters of a value that an error shows
_MOST_PROBLEMS = 100  # the most problems listed in one error


def shown(value: object, form: Callable[[object], str] = repr) -> str:
    """Return a value's repr for an error message, cut to 200 characters. Never raise an error.

    >>> shown("4XB"), len(shown("x" * 1_000_000))
    ("'4XB'", 200)
    """
    try:
        text = form(value)
    except Exception:  # noqa: BLE001 -- a user's repr, or a number with too many digits
        return f"<{type(value).__name__}>"
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


class WindlassError(Exception):
    """The base class of all errors that Windlass raises deliberately.

    >>> str(WindlassError("The disk is full.", hint="Free some space, then try again."))
    'The disk is full.\\n  Free some space, then try again.'
    """

    code = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        if not self.hint:
            return self.message
        return self.message + "".join(f"\n  {line}" for line in self.hint.splitlines())

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args, dict(self.__dict__)))


def _rebuild(
    kind: type[WindlassError], args: tuple[object, ...], state: dict[str, object]
) -> WindlassError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class InvalidArgument(WindlassError, ValueError):
    """Raised if an argument is invalid. The error lists all problems at once.

    >>> error = InvalidArgument.of(
    ...     ["cpus is -1; it must be above 0.", "memory '4XB' is not a size."]
    ... )
    >>> print(error)
    2 problems:
      - cpus is -1; it must be above 0.
      - memory '4XB' is not a size.
    """

    code = "invalid_argument"

    @classmethod
    def of(cls, problems: Sequence[str], *, where: str = "") -> InvalidArgument:
        """Combine all problems into one error, so that the user sees them all at once."""
        prefix = f"{where}: " if where else ""
        if len(problems) == 1:
            first, _, rest = problems[0].partition("\n")
            return cls(prefix + first, hint=rest or None)
        shown = problems[:_MOST_PROBLEMS]
        listed = "\n".join("- " + problem.replace("\n", "\n  ") for problem in shown)
        if len(problems) > len(shown):
            listed += f"\nand {len(problems) - len(shown)} more"
        return cls(f"{prefix}{len(problems)} problems:", hint=listed)


class Unsupported(InvalidArgument):
    """Raised if the selected backend does not support a requested option."""

    code = "unsupported"


class ResourceError(InvalidArgument):
    """Raised if a job requests more resources than any available machine has."""

    code = "resources"


class Deadlock(WindlassError):
    """Raised if a trial waits for a trial that needs the capacity of waiting trials to start."""

    code = "deadlock"


class SnapshotError(WindlassError):
    """Raised if the code could not be packaged."""

    code = "snapshot"


class SerializationError(WindlassError, TypeError):
    """Raised if a function, argument or result cannot be serialized. The message names the part."""

    code = "serialization"


class ServerError(WindlassError):
    """Raised if the server could not be started or reached, or failed internally."""

    code = "server"


class ServerUnreachable(ServerError):
    """Raised if the server did not respond, or the connection broke during the response."""

    code = "unreachable"


class VersionMismatch(ServerError):
    """Raised if the client and the server have incompatible versions."""

    code = "version_mismatch"


class Unauthorized(WindlassError):
    """Raised if the token is missing or wrong."""

    code = "unauthorized"


class KubernetesError(WindlassError):
    """Raised if a Kubernetes cluster could not be reached or rejected a request.

    `status` is the HTTP status of the cluster's response, or 0 if the cluster did not respond or no
    request was sent. `reason` names the cause: `Forbidden`, `NotFound`, `AlreadyExists`, or the
    more specific `QuotaExceeded`.
    """

    code = "kubernetes"

    def __init__(
        self, message: str, *, hint: str | None = None, status: int = 0, reason: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.reason = reason


class NotFound(WindlassError, LookupError):
    """Raised if a requested object does not exist."""

    code = "not_found"


class Conflict(WindlassError):
    """Raised if a request conflicts with the current state."""

    code = "conflict"


class WaitTimeout(WindlassError, TimeoutError):
    """Raised if a wait exceeds its timeout. The trial continues."""

    code = "wait_timeout"


class TrialFailed(WindlassError):
    """Raised if a trial ended without a value: its process died, was stopped or ran out of time.

    `exit_code`, `signal` and `log_tail` (the last lines of output) describe how the trial
    `trial_id` ended. For a trial with several replicas, they describe the replica that failed
    first, which `role`, `index` and `attempt` identify.
    """

    code = "trial_failed"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        trial_id: int | None = None,
        exit_code: int | None = None,
        signal: str | None = None,
        log_tail: Sequence[str] = (),
        role: str | None = None,
        index: int | None = None,
        attempt: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.trial_id = trial_id
        self.exit_code = exit_code
        self.signal = signal
        self.log_tail = tuple(log_tail)
        self.is_tail_shown = False  # whether the user has already seen the last lines
        self.role = role
        self.index = index
        self.attempt = attempt

    def __str__(self) -> str:
        parts = [self.message]
        if self.log_tail and not self.is_tail_shown:
            parts.append("  Its last lines:")
            parts += [f"    {line}" for line in self.log_tail]
        if self.hint:
            parts += [f"  {line}" for line in self.hint.splitlines()]
        return "\n".join(parts)


class TrialStopped(TrialFailed):
    """Raised if a trial was stopped before its function returned a value."""

    code = "trial_stopped"


class ExperimentFailed(WindlassError):
    """Raised after waiting for an experiment if some of its trials did not succeed.

    `experiment_id` identifies the experiment, and `trial_ids` lists the trials that did not
    succeed.
    """

    code = "experiment_failed"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        experiment_id: int | None = None,
        trial_ids: Sequence[int] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.experiment_id = experiment_id
        self.trial_ids = tuple(trial_ids)


class LaunchFailed(WindlassError):
    """Raised if a job could not be launched inside `with wl.create_experiment(...)`.

    `errors` lists all errors. The first one is also the exception's `__cause__`.
    """

    code = "launch_failed"

    def __init__(
        self, message: str, *, hint: str | None = None, errors: Sequence[BaseException] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.errors = tuple(errors)


class RemoteError(WindlassError):
    """Raised if a function's exception could not be sent back unchanged.

    `type_name`, `text` and `traceback` describe the original exception.
    """

    code = "remote_error"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        type_name: str = "",
        text: str = "",
        traceback: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.type_name = type_name
        self.text = text
        self.traceback = traceback


BY_CODE: dict[str, type[WindlassError]] = {
    kind.code: kind
    for kind in (
        WindlassError, InvalidArgument, Unsupported, ResourceError, Deadlock, SnapshotError,
        SerializationError, ServerError, VersionMismatch, Unauthorized, NotFound, Conflict,
        WaitTimeout, KubernetesError,
    )
}  # fmt: skip

# Users know these classes as `wl.TrialFailed` and so on, so tracebacks show those names.
for _kind in (
    *BY_CODE.values(), ServerUnreachable, TrialFailed, TrialStopped, RemoteError,
    ExperimentFailed, LaunchFailed,
):  # fmt: skip
    _kind.__module__ = "windlass"
