"""How a trial stands, in one line for whoever watches it."""

from __future__ import annotations

from windlass.client.naming import has_several
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


def status_text(trial: TrialRecord) -> str:
    """What a trial is waiting for or doing, for the status line."""
    what = _WORDS.get(trial.state, trial.state.value.lower())
    details = _details(trial)
    return f"trial {trial.id} ({trial.name}) {what}" + (f": {details}" if details else "")


def _details(trial: TrialRecord) -> str:
    if not has_several(trial) or trial.state is TrialState.QUEUED:
        return trial.message
    if trial.state is TrialState.RESTARTING:
        why = next((c for c in trial.conditions if c.type is ConditionType.RESTARTING), None)
        return why.message if why is not None and why.message else _count(trial)
    return _count(trial)


def _count(trial: TrialRecord) -> str:
    """How many replicas run, how many are done, and what one of them is at or waits for."""
    from windlass.client.replicas import replicas_of

    replicas = replicas_of(trial)
    run = sum(each.phase == "Running" for each in replicas)
    done = sum(each.phase == "Succeeded" for each in replicas)
    said = f"{run} of {len(replicas)} replicas run" if len(replicas) > 1 else ""
    if done and said:
        said += f", {done} {'is' if done == 1 else 'are'} done"
    return "; ".join(part for part in (said, trial.message) if part)
