"""Trials that repeat others: started again, and found by where they come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.client.transport import Transport
    from windlass.client.trials import Trial
    from windlass.model.records import TrialRecord


class Repeatable:
    """What a trial knows of those that it repeats and that repeat it."""

    _transport: Transport
    _record: TrialRecord

    @property
    def origin(self) -> Trial[Any] | None:
        """The trial that this one repeats, if it repeats one.

        ```python
        again = train.submit(0.1).rerun()
        print(again.origin.id)
        ```
        """
        from windlass.client.transport import path_of
        from windlass.client.trials import Trial
        from windlass.model.records import TrialRecord

        if self._record.recipe.origin_id is None:
            return None
        path = path_of("trials", self._record.recipe.origin_id)
        return Trial(self._transport, self._transport.ask("GET", path, TrialRecord))

    @property
    def reruns(self) -> Iterator[Trial[Any]]:
        """The trials that repeat this one, oldest first, asked for as they are needed.

        ```python
        trial = train.submit(0.1)
        trial.rerun({"lr": 0.2})
        print([each.params for each in trial.reruns])
        ```
        """
        from windlass.client.trials import list_trials

        return list_trials(self._transport, origin_id=self._record.id)
