"""Formats a trial's state as one line of text."""

from __future__ import annotations

from windlass.client.resources.trial.replica_names import has_several
from windlass.model.records import TrialRecord, TrialState
from windlass.model.status import ConditionType

_WORDS = {
    TrialState.QUEUED: "queued",
    TrialState.STARTING: "starting",
    TrialState.RUNNING: "running",
    TrialState.RESTARTING: "restarting",
    TrialState.STOPPING: "stopping",
    TrialState.SUSPENDED: "suspended",
}


_LONGEST_NAME = 30  # characters; a longer name would hide the state


def status_text(trial: TrialRecord) -> str:
    """Return a trial's status line, with its name, state and details."""
    what = _WORDS.get(trial.state, trial.state.value.lower())
    details = _details(trial)
    name = trial.name
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 3]}..."
    if trial.state is TrialState.RESTARTING:
        what, details = _restarting(trial, details)
    says_more = details and details != what
    return f"trial {trial.id} ({name}) {what}" + (f": {details}" if says_more else "")


def share_of(trial: TrialRecord) -> float | None:
    """Return the progress that a running program last reported, from 0 to 1, or None."""
    return trial.progress if trial.state is TrialState.RUNNING else None


def _details(trial: TrialRecord) -> str:
    if not has_several(trial) or trial.state is TrialState.QUEUED:
        return trial.message
    return _count(trial)


def _restarting(trial: TrialRecord, details: str) -> tuple[str, str]:
    """Return a restarting trial's state text and details.

    The text contains the number and limit of restarts. The details are the cause, if known.
    """
    why = next((c for c in trial.conditions if c.type is ConditionType.RESTARTING), None)
    message = why.message if why is not None and why.status else ""
    if why is not None and why.reason != "ReplicaRestarting":
        return "restarting", message or details
    number = f"{trial.restarts} of {trial.spec.backoff_limit}"
    cause, separator, count = message.rpartition("; restart ")
    return f"restarting ({number})", cause if separator and count == number else details


def _count(trial: TrialRecord) -> str:
    """Describe how many of a trial's replicas are running or done, and add the trial's message."""
    from windlass.client.resources.trial.replicas import replicas_of

    replicas = replicas_of(trial)
    size = len(replicas)
    run = sum(replica.phase == "Running" for replica in replicas)
    done = sum(replica.phase == "Succeeded" for replica in replicas)
    if trial.state is TrialState.SUSPENDED:
        return f"{run} {'replica is' if run == 1 else 'replicas are'} stopping" if run else ""
    summary = ""
    if size > 1:
        summary = f"{size} replicas" if run == size else f"{run} of {size} replicas run"
    if done and summary:
        summary += f", {done} {'is' if done == 1 else 'are'} done"
    return "; ".join(part for part in (summary, trial.message) if part)
