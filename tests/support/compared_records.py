"""Records for comparisons, as the server returns them."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.model.job import JobSpec, ProcessCall, Role
from windlass.model.records import Summary, TrialRecord, TrialState


def record(number: int = 1, **fields: Any) -> TrialRecord:
    """A successful trial; `fields` override fields of the record."""
    spec = JobSpec(roles=(Role(executable=ProcessCall(argv=("python", "train.py"))),))
    defaults = {
        "id": number,
        "uid": f"{number:032x}",
        "name": "train",
        "experiment": "train",
        "experiment_id": 1,
        "project": "default",
        "state": TrialState.SUCCEEDED,
        "started": 10.0,
        "ended": 12.5,
        "spec": spec,
    }
    return TrialRecord(**{**defaults, **fields})


def with_role(trial: TrialRecord, **fields: Any) -> TrialRecord:
    """The same trial with another role."""
    role = msgspec.structs.replace(trial.spec.roles[0], **fields)
    return with_spec(trial, roles=(role,))


def with_spec(trial: TrialRecord, **fields: Any) -> TrialRecord:
    """The same trial with another spec."""
    spec = msgspec.structs.replace(trial.spec, **fields)
    return msgspec.structs.replace(trial, spec=spec)


def summary(*values: float) -> Summary:
    """The summary of these values of a metric."""
    return Summary(
        count=len(values),
        min=min(values),
        max=max(values),
        mean=sum(values) / len(values),
        last=values[-1],
        step=len(values) - 1,
    )
