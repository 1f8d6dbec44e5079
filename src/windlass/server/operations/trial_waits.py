"""Records which trials wait for other trials, to find deadlocks on a full machine.

A trial's program waits for a second trial through a stream, and names its own trial when it opens
the stream. The program waits for as long as the stream is open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from windlass.controller.admission import AdmissionQueue
from windlass.model.records import TrialRecord


class TrialWaits:
    """The trials that wait for other trials. `publish` gets the id of a trial that may be stuck."""

    def __init__(self, admission: AdmissionQueue, publish: Callable[[int], None]) -> None:
        self._admission = admission
        self._publish = publish
        self._ids: dict[str, int] = {}  # the ids of waiting and awaited trials, by uid
        self._waits: dict[str, Counter[str]] = {}  # the awaited uids, by waiting uid

    @contextmanager
    def wait(self, waiter: TrialRecord | None, awaited: TrialRecord) -> Iterator[None]:
        """Record, until the end of the block, that `waiter` waits for `awaited`."""
        if waiter is None:
            yield
            return
        self._ids |= {waiter.uid: waiter.id, awaited.uid: awaited.id}
        self._waits.setdefault(waiter.uid, Counter())[awaited.uid] += 1
        self._publish_all()
        try:
            yield
        finally:
            self._end(waiter.uid, awaited.uid)
            self._publish_all()

    def blockers(self, uid: str) -> tuple[int, ...]:
        """Return the ids of the trials that keep a queued trial from ever starting.

        These trials wait for other trials while they hold the capacity that the queued trial needs.
        """
        if not any(uid in awaited for awaited in self._waits.values()):
            return ()
        deadlock = self._admission.find_deadlock(self._waits)
        if uid not in deadlock.blocked:
            return ()
        return tuple(sorted(self._ids[waiter] for waiter in deadlock.stuck))

    def _end(self, waiter: str, awaited: str) -> None:
        counts = self._waits[waiter]
        counts[awaited] -= 1
        if not counts[awaited]:
            del counts[awaited]
        if not counts:
            del self._waits[waiter]
        named = {*self._waits, *(uid for counts in self._waits.values() for uid in counts)}
        self._ids = {uid: trial_id for uid, trial_id in self._ids.items() if uid in named}

    def _publish_all(self) -> None:
        for counts in self._waits.values():
            for uid in counts:
                self._publish(self._ids[uid])
