"""Adds live facts, such as the reason why a trial waits, to trial records."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.model.records import TrialRecord, TrialState
from windlass.model.requests import TrialPage
from windlass.model.status import ConditionType, Phase
from windlass.server.services import Services

# A pending attempt comes first, because its message says what the trial waits for.
_GOING = (Phase.PENDING.value, Phase.RUNNING.value)


async def describe(services: Services, trial_id: int) -> TrialRecord:
    """Return the current record of a trial."""
    return enrich(services, await services.trials.record(trial_id))


def enrich_page(services: Services, page: TrialPage) -> TrialPage:
    """Return a page of trials after adding live facts to each trial."""
    items = tuple(enrich(services, record) for record in page.items)
    return msgspec.structs.replace(page, items=items)


def enrich(services: Services, record: TrialRecord) -> TrialRecord:
    """Return a trial's record, including its directory and, until it ends, its current activity."""
    directory = f"{services.home.trials}/{record.id}"
    message = record.message
    if not record.state.is_final:
        waits = services.admission.explain(record.uid)
        if record.state is TrialState.QUEUED:
            message = waits[0] if waits else ""
            if blockers := services.waits.blockers(record.uid):
                record = msgspec.structs.replace(record, blocked_by=blockers)
                message = f"{message}; cannot start: {_describe_blockers(blockers)}"
        elif waits:
            message = f"cannot grow yet: {waits[0]}"
        elif failure := services.controller.start_failure(record.uid):
            message = f"cannot start yet: {failure}"
        elif record.attempts:
            message = _what_it_does(record)
    return msgspec.structs.replace(record, directory=directory, message=message)


def _describe_blockers(trial_ids: Sequence[int]) -> str:
    """Describe the trials that wait for a queued trial and meanwhile hold capacity that it needs.

    >>> _describe_blockers((3,)), _describe_blockers((3, 5))
    ('trial 3 waits for it and keeps its CPUs', 'trials 3 and 5 wait and keep their CPUs')
    """
    if len(trial_ids) == 1:
        return f"trial {trial_ids[0]} waits for it and keeps its CPUs"
    *first, last = map(str, trial_ids)
    return f"trials {', '.join(first)} and {last} wait and keep their CPUs"


def _what_it_does(record: TrialRecord) -> str:
    """Return a message about what an unfinished trial that has attempts is doing.

    For a single replica, this is its newest attempt's message. For several replicas, it is the
    reason for a restart if there is one, or else a pending replica's message, or else a running
    replica's message.
    """
    newest = {
        (attempt.role, attempt.index): attempt for attempt in record.attempts
    }  # a later attempt replaces the same replica's earlier attempt
    if len(newest) == 1:
        return record.attempts[-1].message
    restarting = (c for c in record.conditions if c.type is ConditionType.RESTARTING and c.status)
    why = next(restarting, None)
    if why is not None:
        return why.message
    busy = [attempt for attempt in newest.values() if attempt.phase in _GOING and attempt.message]
    busy.sort(key=lambda attempt: _GOING.index(attempt.phase))
    return next((f"{attempt.role}-{attempt.index}: {attempt.message}" for attempt in busy), "")
