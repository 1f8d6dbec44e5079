"""Ends trials that depend on other trials.

An auxiliary trial, such as a dashboard, ends with its experiment. A generator trial ends when the
trials that it added have ended. All decisions follow from stored records, so that after a crash the
next server can check all of these trials when it starts.
"""

from __future__ import annotations

import asyncio
import logging

from windlass.model.errors import WindlassError
from windlass.model.records import TrialRecord
from windlass.model.requests import StopTrial
from windlass.server.operations import generators
from windlass.server.operations.stop import stop_all
from windlass.server.services import Services

_TRY_AGAIN = 1.0
_OVER = StopTrial(reason="its experiment is over")

_log = logging.getLogger("windlass")

Due = tuple[str, int]


class Dependents:
    """Ends trials that depend on other trials. `changed` can be called from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: dict[Due, None] = {}
        self._is_due = asyncio.Event()
        # The ids of unfinished auxiliary trials, by experiment id.
        self._auxiliary: dict[int, set[int]] = {}
        # Experiments released during the grace period after the server started.
        self._left_early: set[int] = set()

    def changed(self, trial: TrialRecord) -> None:
        """Schedule a check of the trials that depend on a new or changed trial."""
        if trial.auxiliary:
            self._know_auxiliary(trial)
        if not trial.state.is_final:
            return
        if trial.parent_id is not None:
            self._wake(("parent", trial.parent_id))
        if self._auxiliary.get(trial.experiment_id):
            self._wake(("experiment", trial.experiment_id))

    def let_go(self, experiment_id: int) -> None:
        """Schedule a check of an experiment's trials.

        Called after a program has given up its lease on the experiment.
        """
        self._wake(("left", experiment_id))

    async def look_after(self, services: Services) -> None:
        """Check, for as long as the server runs, whether dependent trials must end."""
        for trial in await services.relations.unfinished_auxiliary():
            self._auxiliary.setdefault(trial[1], set()).add(trial[0])
        for parent_id in await services.relations.unfinished_parents():
            # The trial's last child may have ended while no server was running.
            self._wake(("parent", parent_id))
        returning = asyncio.create_task(self._look_when_nobody_returns(services))
        try:
            while True:
                await self._is_due.wait()
                self._is_due.clear()
                due, self._due = list(self._due), {}
                for experiment_id in due:
                    await self._check(services, experiment_id)
        finally:
            returning.cancel()

    async def _look_when_nobody_returns(self, services: Services) -> None:
        """Wait until programs can no longer reconnect, then schedule a check of all trials.

        After the start of the server, programs have a grace period to reconnect.
        """
        await services.leases.early()
        for parent_id in await services.relations.unfinished_parents():
            self._wake(("parent", parent_id))
        for experiment_id in list(self._auxiliary):
            was_left = experiment_id in self._left_early
            self._wake(("left" if was_left else "experiment", experiment_id))
        self._left_early.clear()

    async def _check(self, services: Services, due: Due) -> None:
        kind, number = due
        try:
            if kind == "parent":
                await generators.look_at(services, number)
                return
            if kind == "left":
                if services.leases.is_early():
                    self._left_early.add(number)
                for parent_id in await services.relations.unfinished_parents(number):
                    await generators.look_at(services, parent_id)
            if self._auxiliary.get(number) and not services.leases.may_be_held(number):
                over = await services.relations.auxiliary_to_stop(number, was_held=kind == "left")
                await stop_all(services, over, _OVER)
        except WindlassError as error:
            _log.warning("%s %s: %s", kind, number, error)
        except Exception:  # noqa: BLE001 -- a failure must not stop the checks of other trials
            _log.exception("%s %s: will be checked again", kind, number)
            self._loop.call_later(_TRY_AGAIN, self._add, due)

    def _know_auxiliary(self, trial: TrialRecord) -> None:
        trial_ids = self._auxiliary.setdefault(trial.experiment_id, set())
        if trial.state.is_final:
            trial_ids.discard(trial.id)
        else:
            trial_ids.add(trial.id)

    def _wake(self, due: Due) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._add, due)

    def _add(self, due: Due) -> None:
        self._due[due] = None
        self._is_due.set()
