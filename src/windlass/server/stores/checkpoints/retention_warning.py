"""Warns if `keep_best` names a metric for which none of a trial's checkpoints has a value."""

from __future__ import annotations

import difflib
import time
from collections.abc import Sequence

from windlass.model.job import Keep
from windlass.model.records import CheckpointRecord, is_own_metric
from windlass.model.status import NOTHING_TO_JUDGE_BY, Event, EventKind
from windlass.server.db.base import Connection
from windlass.server.db.event_rows import add_events

_MANY = 10  # surplus checkpoints before the warning; fewer are normal if programs rarely validate
_NAMED = 10


def warn(
    connection: Connection,
    trial_id: int,
    keep: Keep,
    checkpoints: Sequence[CheckpointRecord],
    *,
    is_over: bool,
) -> None:
    """Warn once that all checkpoints are kept because the best ones are unknown.

    The program may report the metric later, so the warning is delayed until there are many
    checkpoints or the trial is over (`is_over`). The warning is recorded at once if a group, such
    as `validation`, has a metric of this name.
    """
    parameters = {"trial_id": trial_id, "reason": NOTHING_TO_JUDGE_BY}
    query = "SELECT 1 FROM events WHERE trial_id = :trial_id AND reason = :reason"
    if connection.row(query, parameters) is not None:
        return
    reported = "SELECT name FROM summaries WHERE trial_id = :trial_id ORDER BY name"
    rows = connection.rows(reported, {"trial_id": trial_id})
    names = [row["name"] for row in rows if is_own_metric(row["name"])]
    is_grouped = any(name.endswith(f"/{keep.metric}") for name in names)
    if not is_over and not is_grouped and len(checkpoints) < keep.last + keep.best + _MANY:
        return
    message = explain(keep.metric, names, checkpoints[-1].step)
    event = Event(
        time=time.time(), kind=EventKind.WARNING, reason=NOTHING_TO_JUDGE_BY, message=message
    )
    add_events(connection, trial_id, [event])


def explain(metric: str, names: Sequence[str], step: int | None) -> str:
    """Return a message that says why no checkpoint has a value for the metric, and what to try.

    >>> print(explain("accuracy", ["loss", "validation/accuracy"], 4))
    keep_best: no 'accuracy' was reported, so all checkpoints stay; \
did you mean 'validation/accuracy'?
    """
    if metric in names:
        at_steps = f"at their steps, up to {step}, or before"
        when = "before they were saved" if step is None else at_steps
        return (
            f"keep_best: no {metric!r} was reported {when}, so all checkpoints stay;"
            " use the same steps in wl.report and wl.save_checkpoint"
        )
    message = f"keep_best: no {metric!r} was reported, so all checkpoints stay"
    in_groups = [name for name in names if name.endswith(f"/{metric}")]
    if near := in_groups or difflib.get_close_matches(metric, names):
        return f"{message}; did you mean {' or '.join(map(repr, near[:3]))}?"
    if not names:
        return f"{message}; no metrics were reported at all"
    more = ", …" if len(names) > _NAMED else ""
    return f"{message}; it reported {', '.join(names[:_NAMED])}{more}"
