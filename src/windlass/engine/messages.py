"""Sentences about replicas: which one it was, and how it ended."""

from __future__ import annotations

import signal

from windlass.model.job import JobSpec
from windlass.model.status import Replica, ReplicaId

_SILENT_REASONS = frozenset({"", "Signal", "Error", "Completed"})


def describe_end(replica: Replica) -> str:
    """How an attempt ended, in a few words.

    >>> from windlass.model.status import Phase
    >>> name = ReplicaId("main", 0, 1)
    >>> describe_end(Replica(id=name, phase=Phase.FAILED, exit_code=3))
    'exit code 3'
    >>> describe_end(Replica(id=name, phase=Phase.FAILED, exit_code=137, reason="Signal"))
    'killed by SIGKILL (exit code 137)'
    >>> describe_end(Replica(id=name, phase=Phase.FAILED, reason="Lost", message="node gone"))
    'Lost: node gone'
    """
    words = describe_exit(replica.exit_code, by_signal=replica.reason == "Signal")
    if replica.reason == "StartFailed":
        words = "could not start"
    elif replica.exit_code is None and replica.reason not in _SILENT_REASONS:
        words = replica.reason
    elif replica.reason not in _SILENT_REASONS:
        words = f"{words}, {replica.reason}"
    return f"{words}: {replica.message}" if replica.message else words


def describe_exit(exit_code: int | None, *, by_signal: bool = False) -> str:
    """What an exit code says.

    >>> [describe_exit(code) for code in (None, 3, 143)]
    ['ended without an exit code', 'exit code 3', 'exit code 143 (SIGTERM)']
    """
    if exit_code is None:
        return "ended without an exit code"
    name = signal_name(exit_code)
    if name and by_signal:
        return f"killed by {name} (exit code {exit_code})"
    return f"exit code {exit_code} ({name})" if name else f"exit code {exit_code}"


def signal_name(exit_code: int) -> str:
    """The signal that an exit code of 128 and more stands for, if any.

    >>> signal_name(137), signal_name(1)
    ('SIGKILL', '')
    """
    if exit_code <= 128:
        return ""
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return ""


def about(spec: JobSpec, replica: ReplicaId, what: str) -> str:
    """A sentence about a replica, which is named unless there is only one to speak of.

    >>> from windlass.model.job import ProcessCall, Role
    >>> role = Role(executable=ProcessCall(argv=("true",)), name="worker")
    >>> about(JobSpec(roles=(role,)), ReplicaId("worker", 0, 1), "exit code 3")
    'exit code 3'
    >>> about(JobSpec(roles=(role,)), ReplicaId("worker", 0, 2), "exit code 3")
    'worker-0 attempt 2: exit code 3'
    """
    alone = sum(role.replicas for role in spec.roles) <= 1
    if alone and replica.attempt <= 1:
        return what
    return f"{name_of(replica)}: {what}"


def name_of(replica: ReplicaId) -> str:
    """A replica's attempt as people say it.

    >>> name_of(ReplicaId("worker", 1, 2))
    'worker-1 attempt 2'
    """
    return f"{replica.role}-{replica.index} attempt {replica.attempt}"


def times(count: int, word: str) -> str:
    """A number of things.

    >>> times(1, "restart"), times(3, "restart")
    ('1 restart', '3 restarts')
    """
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
