"""The public errors of Windlass, which all derive from `WindlassError`.

An error states what happened, why, and what to do next. The first line is the problem, and the
indented lines below are the remedy. This file imports nothing at run time, so that raising an error
never costs an import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

_MOST_SHOWN = 200  # the longest text that an error shows of a value
_MOST_PROBLEMS = 100  # the most problems that one error lists


def shown(value: object, form: Callable[[object], str] = repr) -> str:
    """Return a value's repr for an error message, cut to 200 characters. Never raises.

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
    """An argument is invalid. The error lists all problems at once.

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
        """Combine all problems into one error, so that one run shows them all."""
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
    """The chosen backend does not support a requested option."""

    code = "unsupported"


class ResourceError(InvalidArgument):
    """The job requests more resources than any available machine has."""

    code = "resources"


class Deadlock(WindlassError):
    """The trial waits for a trial that can only start in the capacity of waiting trials."""

    code = "deadlock"


class SnapshotError(WindlassError):
    """The code could not be packaged."""

    code = "snapshot"


class SerializationError(WindlassError, TypeError):
    """A function, an argument or a result cannot be serialized. The message names the part."""

    code = "serialization"


class ServerError(WindlassError):
    """The server could not be started or reached, or failed internally."""

    code = "server"


class ServerUnreachable(ServerError):
    """The server did not answer, or the connection broke during the answer."""

    code = "unreachable"


class VersionMismatch(ServerError):
    """The client and the server have incompatible versions."""

    code = "version_mismatch"


class Unauthorized(WindlassError):
    """The token is missing or wrong."""

    code = "unauthorized"


class KubernetesError(WindlassError):
    """A Kubernetes cluster could not be reached or refused a request.

    `status` is the HTTP status of the cluster's answer. The status is 0 if the cluster did not
    answer or no request was sent. `reason` names the cause: `Forbidden`, `NotFound`,
    `AlreadyExists`, or the more specific `QuotaExceeded`.
    """

    code = "kubernetes"

    def __init__(
        self, message: str, *, hint: str | None = None, status: int = 0, reason: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.reason = reason


class NotFound(WindlassError, LookupError):
    """The requested object does not exist."""

    code = "not_found"


class Conflict(WindlassError):
    """The request conflicts with the current state."""

    code = "conflict"


class WaitTimeout(WindlassError, TimeoutError):
    """The wait ended because of its timeout. The trial continues."""

    code = "wait_timeout"


class TrialFailed(WindlassError):
    """A trial ended without a value because its process died, was stopped, or ran out of time.

    `exit_code`, `signal` and `log_tail` (the last lines of output) describe how the trial
    `trial_id` ended. For a trial with several replicas, `role`, `index` and `attempt` identify the
    replica that failed first. The exit code and the lines are then from that replica.
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
        self.role = role
        self.index = index
        self.attempt = attempt

    def __str__(self) -> str:
        parts = [self.message]
        if self.log_tail:
            parts.append("  Its last lines:")
            parts += [f"    {line}" for line in self.log_tail]
        if self.hint:
            parts += [f"  {line}" for line in self.hint.splitlines()]
        return "\n".join(parts)


class TrialStopped(TrialFailed):
    """The trial was stopped before the function returned a value."""

    code = "trial_stopped"


class ExperimentFailed(WindlassError):
    """A call waited for an experiment, and some trials of the experiment did not succeed.

    `experiment_id` is the experiment, and `trial_ids` lists the trials that did not succeed.
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
    """A job could not be launched inside `with wl.create_experiment(...)`.

    `errors` lists all errors. The first error is also the `__cause__` of the exception.
    """

    code = "launch_failed"

    def __init__(
        self, message: str, *, hint: str | None = None, errors: Sequence[BaseException] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.errors = tuple(errors)


class RemoteError(WindlassError):
    """The function raised an exception that could not be sent back unchanged.

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

# Users know these classes as `wl.TrialFailed` and so on; tracebacks should show that name.
for _kind in (
    *BY_CODE.values(), ServerUnreachable, TrialFailed, TrialStopped, RemoteError,
    ExperimentFailed, LaunchFailed,
):  # fmt: skip
    _kind.__module__ = "windlass"
