"""Texts for messages that name a replica or say how an attempt ended."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import msgspec

from windlass.model.job import JobSpec
from windlass.model.records import STOPPED_REASON
from windlass.model.status import Replica, ReplicaId
from windlass.model.text.quantities import format_duration

_SILENT_REASONS = frozenset({"", "Signal", "Error", "Completed"})
_TERMINATED = (128 + signal.SIGTERM, 128 + signal.SIGKILL)


class End(msgspec.Struct, frozen=True):
    """How an attempt ended, as a noun phrase and as a verb phrase, plus further detail.

    >>> killed = End("killed by SIGKILL", "was killed by SIGKILL")
    """

    what: str
    verb: str
    detail: str = ""


VANISHED = End("vanished", "vanished")


def describe_end(replica: Replica) -> End:
    """Describe how an attempt ended.

    >>> from windlass.model.status import Phase
    >>> name = ReplicaId("main", 0, 1)
    >>> describe_end(Replica(id=name, phase=Phase.FAILED, exit_code=3))
    End(what='exit code 3', verb='failed with exit code 3', detail='')
    >>> describe_end(Replica(id=name, phase=Phase.FAILED, exit_code=137, reason="Signal")).verb
    'was killed by SIGKILL (exit code 137)'
    >>> describe_end(Replica(id=name, phase=Phase.FAILED, reason="Lost", message="node gone"))
    End(what='Lost', verb='ended (Lost)', detail='node gone')
    """
    reason = replica.reason
    end = describe_exit(replica.exit_code, by_signal=reason == "Signal")
    if reason == "StartFailed":
        end = End("could not start", "could not start")
    elif replica.exit_code is None and reason not in _SILENT_REASONS:
        end = End(reason, f"ended ({reason})")
    elif reason not in _SILENT_REASONS:
        end = End(f"{end.what}, {reason}", f"{end.verb}, {reason}")
    return End(end.what, end.verb, " ".join(replica.message.split()))


def describe_exit(exit_code: int | None, *, by_signal: bool = False) -> End:
    """Describe how a program ended, from its exit code.

    `by_signal` is True if a signal killed the program. If it is False, the program itself may have
    returned an exit code above 128.

    >>> [describe_exit(code).what for code in (None, 3, 143)]
    ['ended without an exit code', 'exit code 3', 'exit code 143 (SIGTERM)']
    """
    if exit_code is None:
        return End("ended without an exit code", "ended without an exit code")
    name = signal_name(exit_code)
    if name and by_signal:
        killed = f"killed by {name} (exit code {exit_code})"
        return End(killed, f"was {killed}")
    code = f"exit code {exit_code} ({name})" if name else f"exit code {exit_code}"
    return End(code, f"{'failed' if exit_code else 'ended'} with {code}")


def signal_name(exit_code: int) -> str:
    """Return the name of the signal that an exit code stands for, or "" if there is none.

    >>> signal_name(137), signal_name(1)
    ('SIGKILL', '')
    """
    if exit_code <= 128:
        return ""
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return ""


def is_alone(spec: JobSpec) -> bool:
    """Return True if a job has at most one replica, so that messages need not name it."""
    return sum(role.replicas for role in spec.roles) <= 1


def describe(spec: JobSpec, replica: ReplicaId, end: End) -> str:
    """Describe how an attempt ended, and name the replica if the job has several replicas.

    >>> from windlass.model.job import ProcessCall, Role
    >>> role = Role(executable=ProcessCall(argv=("true",)), name="worker")
    >>> end = describe_exit(3)
    >>> describe(JobSpec(roles=(role,)), ReplicaId("worker", 0, 1), end)
    'exit code 3'
    >>> describe(JobSpec(roles=(role,)), ReplicaId("worker", 0, 2), end)
    'exit code 3 in attempt 2'
    >>> describe(JobSpec(roles=(role, role)), ReplicaId("worker", 1, 2), end)
    'worker-1 (attempt 2) failed with exit code 3'
    """
    if not is_alone(spec):
        words = f"{replica.role}-{replica.index} (attempt {replica.attempt}) {end.verb}"
    elif replica.attempt > 1:
        words = f"{end.what} in attempt {replica.attempt}"
    else:
        words = end.what
    return f"{words}: {end.detail}" if end.detail else words


def name_of(replica: ReplicaId) -> str:
    """Return the name of a replica's attempt as shown in messages.

    >>> name_of(ReplicaId("worker", 1, 2))
    'worker-1 attempt 2'
    """
    return f"{replica.role}-{replica.index} attempt {replica.attempt}"


def cut_cleanup(replicas: Sequence[Replica], limit: float) -> str:
    """Say, for the end of a message, that programs did not finish `limit` seconds after SIGINT.

    The text is empty if SIGINT was enough for all replicas.

    >>> from windlass.model.status import Phase
    >>> def ended(code: int) -> Replica:
    ...     id = ReplicaId("main", 0, 1)
    ...     return Replica(id=id, phase=Phase.FAILED, exit_code=code, reason="Stopped")
    >>> cut_cleanup([ended(143)], 5.0)
    '; the program did not finish within 5s and was terminated'
    >>> cut_cleanup([ended(130)], 5.0)
    ''
    """
    if not any(r.reason == STOPPED_REASON and r.exit_code in _TERMINATED for r in replicas):
        return ""
    return f"; the program did not finish within {format_duration(limit)} and was terminated"


def how_often(count: int) -> str:
    """Return "once", "twice" or a number of times.

    >>> [how_often(count) for count in (1, 2, 3)]
    ['once', 'twice', '3 times']
    """
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
