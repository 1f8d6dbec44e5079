"""Records with what only the running server knows: why one waits, where its files are."""

from __future__ import annotations

import msgspec

from windlass.model.records import TrialRecord, TrialState
from windlass.model.requests import TrialPage
from windlass.model.status import ConditionType, Phase
from windlass.server.services import Services

# One that runs has something to say when nothing new is known of it; others wait for something.
_GOING = (Phase.PENDING.value, Phase.RUNNING.value)


async def describe(services: Services, trial_id: int) -> TrialRecord:
    """A trial as it stands now."""
    return enrich(services, await services.trials.record(trial_id))


def enrich_page(services: Services, page: TrialPage) -> TrialPage:
    """The same page, each trial with what only the running server knows."""
    items = tuple(enrich(services, record) for record in page.items)
    return msgspec.structs.replace(page, items=items)


def enrich(services: Services, record: TrialRecord) -> TrialRecord:
    """A trial with its directory and, while it goes on, what it waits for or does."""
    directory = f"{services.home.trials}/{record.id}"
    message = record.message
    if not record.state.is_final:
        waits = services.admission.explain(record.uid)
        if record.state is TrialState.QUEUED:
            message = waits[0] if waits else ""
        elif waits:
            message = f"grows when there is room: {waits[0]}"
        elif record.attempts:
            message = _what_it_does(record)
    return msgspec.structs.replace(record, directory=directory, message=message)


def _what_it_does(record: TrialRecord) -> str:
    """What the newest attempt is at; of several replicas, the first that is at something."""
    newest = {
        (attempt.role, attempt.index): attempt for attempt in record.attempts
    }  # they come in order
    if len(newest) == 1:
        return record.attempts[-1].message
    restarting = (c for c in record.conditions if c.type is ConditionType.RESTARTING and c.status)
    why = next(restarting, None)
    if why is not None:
        return why.message
    busy = [attempt for attempt in newest.values() if attempt.phase in _GOING and attempt.message]
    busy.sort(key=lambda attempt: _GOING.index(attempt.phase))
    return next((f"{attempt.role}-{attempt.index}: {attempt.message}" for attempt in busy), "")
