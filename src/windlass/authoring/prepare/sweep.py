"""Submits the trials of one call of `map` or `starmap`, and yields their values."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from windlass.model.errors import WindlassError

if TYPE_CHECKING:
    from windlass.authoring.prepare.draft import Plan
    from windlass.authoring.prepare.map_calls import MapCall, MapCalls
    from windlass.client.client import Client
    from windlass.client.resources.trial.trial import Trial
    from windlass.client.terminal.map_progress import MapProgress
    from windlass.client.terminal.view import View
    from windlass.model.records import TrialRecord
    from windlass.packaging.draft import Draft

_AHEAD = 1000  # the most trials that are submitted ahead of the values taken so far
_BATCH = 500  # trials in one request
_LARGEST_BATCH = 16 << 20  # bytes of arguments in one request
_LONGEST = 0.02  # seconds to collect a batch from an iterator of unknown length
_ENDED_EARLY = "the map it belongs to ended early"


class Sweep:
    """The trials of one `map`, submitted in advance and in batches.

    Once the first item is available, `plan` connects to the server and takes the code snapshot.
    """

    def __init__(
        self,
        name: str,
        calls: MapCalls,
        plan: Callable[[], tuple[Client, Plan]],
        draft: Callable[[Plan, MapCall], Draft],
    ) -> None:
        self._name = name
        self._calls = iter(calls)
        self._total = calls.total
        # A generator may wait for the trials of its earlier items.
        self._largest_batch = 1 if calls.is_lazy else _BATCH
        self._make_plan = plan
        self._make_draft = draft
        self._waiting: deque[Trial[Any]] = deque()
        self._sending: list[Draft] = []  # drafts whose trials may or may not exist
        self._client: Client | None = None
        self._plan: Plan | None = None
        self._ids: set[int] = set()
        self._is_interrupted = False
        self._progress: MapProgress | None = None

    def begin(self) -> None:
        """Submit the first trials.

        If a submission fails, stop the trials that were already submitted.
        """
        try:
            self._submit_ahead()
        except BaseException as error:  # Ctrl-C must stop all trials, too
            self._is_interrupted = isinstance(error, KeyboardInterrupt)
            self._stop_rest()
            raise

    def values(self, *, return_exceptions: bool) -> Iterator[Any]:
        """Yield the values in the order of the items."""
        try:
            while self._waiting:
                yield self._next_value(return_exceptions)
                if len(self._waiting) <= _AHEAD - self._largest_batch:
                    self._submit_ahead()
        except KeyboardInterrupt:
            self._is_interrupted = True
            raise
        finally:
            if self._progress is not None:
                self._progress.close()
            self._stop_rest()

    def _show_progress(self, client: Client) -> MapProgress:
        if self._progress is None:
            from windlass.client.terminal.map_progress import MapProgress

            self._progress = MapProgress(
                self._name,
                self._ids.__contains__,
                lambda: len(self._ids) if self._total is None else self._total,
            )
            self._progress.start(client.transport, self._waiting[0].record)
        return self._progress

    def _submit_ahead(self) -> None:
        while (most := min(_AHEAD - len(self._waiting), self._largest_batch)) > 0:
            self._sending = self._next_drafts(most)
            if not self._sending:
                return
            assert self._client is not None  # noqa: S101 -- set with the first draft
            if len(self._sending) == 1:
                self._waiting.append(self._client.submit(self._sending[0]))
            else:
                self._waiting += self._client.submit_all(self._sending)
            self._ids |= {trial.id for trial in self._waiting}
            self._sending = []

    def _next_drafts(self, most: int) -> list[Draft]:
        drafts: list[Draft] = []
        size = 0
        started = time.monotonic()
        for call in self._calls:
            if self._plan is None:
                self._client, self._plan = self._make_plan()
            draft = self._make_draft(self._plan, call)
            drafts.append(draft)
            size += sum(map(len, draft.blobs.values()))
            is_late = self._total is None and time.monotonic() - started > _LONGEST
            if len(drafts) == most or size > _LARGEST_BATCH or is_late:
                break
        return drafts

    def _stop_rest(self) -> None:
        """Stop the remaining trials, newest first.

        If the oldest were stopped first, each stop would free capacity, in which a newer trial
        would start. After Ctrl-C, a plain stop would cut the cleanup of a trial short.
        """
        self._recover_sent()
        if self._is_interrupted:
            self._interrupt_trials()
            return
        for trial in reversed(self._waiting):
            trial.stop(reason=_ENDED_EARLY)

    def _recover_sent(self) -> None:
        """Find the trials of a submission whose response was lost.

        The server has created either all of these trials or none.
        """
        drafts, self._sending = self._sending, []
        if not drafts or self._client is None:
            return
        with contextlib.suppress(WindlassError):  # the first error is the one to report
            if is_submitted(self._client, drafts[0]):
                self._waiting += self._client.submit_all(drafts)

    def _interrupt_trials(self, *, keep: int = 0) -> int:
        """After Ctrl-C, stop all trials but the oldest `keep`. Return how many had not ended."""
        from windlass.client.connection.interrupt import interrupt
        from windlass.model.records import TrialState

        stopped = 0
        while len(self._waiting) > keep:
            assert self._client is not None  # noqa: S101 -- set by the first submission
            latest = interrupt(self._client.transport, self._waiting[-1].id, _ENDED_EARLY)
            stopped += latest.state not in (TrialState.SUCCEEDED, TrialState.FAILED)
            self._waiting.pop()
        return stopped

    def _stop_others(self) -> int:
        """After Ctrl-C, stop all trials but the oldest, which the caller stops."""
        return self._interrupt_trials(keep=1)

    def _next_value(self, return_exceptions: bool) -> Any:
        from windlass.client.terminal.view import View
        from windlass.client.terminal.watch_trial import watch

        assert self._client is not None  # noqa: S101 -- set by the first submission
        failure: BaseException
        try:
            with View() as view, self._show_progress(self._client).showing(view):
                current = self._waiting[0]
                trial, end = watch(self._client, current, view, before_stop=self._stop_others)
                if return_exceptions:
                    _note_failure(trial.record, view)
            self._show_progress(self._client).ended(trial.record)
        except (WindlassError, KeyboardInterrupt) as error:
            failure = error.with_traceback(None)  # internal frames do not help users
        else:
            self._waiting.popleft()
            outcome = trial.outcome(end, view.has_shown)
            if outcome.error is None:
                return outcome.value
            if return_exceptions and isinstance(outcome.error, Exception):
                return outcome.error
            failure = outcome.error
        raise failure


def _note_failure(trial: TrialRecord, view: View) -> None:
    """Name a failed trial whose error is returned, because no raised error names the trial."""
    from windlass.client.resources.trial.outcome import how_it_ended
    from windlass.model.records import TrialState

    # A notebook cell names every failed trial.
    if trial.state is not TrialState.SUCCEEDED and view.cell is None:
        view.note(f"trial {trial.id} ({trial.name}) {how_it_ended(trial)}")


def is_submitted(client: Client, draft: Draft) -> bool:
    """Return whether the server already has a draft's trial."""
    from windlass.model.requests import TrialPage

    query = {"uid": draft.request.key}
    return bool(client.transport.ask("GET", "/trials", TrialPage, query=query).items)
