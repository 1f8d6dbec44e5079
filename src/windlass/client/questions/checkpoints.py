"""Asking for checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.checkpoints import Checkpoint, list_checkpoints
from windlass.client.pages import Listing
from windlass.client.questions.asker import Asker
from windlass.client.transport import path_of
from windlass.model.errors import InvalidArgument, shown
from windlass.model.records import CheckpointRecord

if TYPE_CHECKING:
    from windlass.client.trials import Trial


class CheckpointQuestions(Asker):
    """Checkpoints: one, many."""

    def get_checkpoint(self, checkpoint_id: int | str) -> Checkpoint:
        """The checkpoint with that id, or with the uid that `wl.save_checkpoint` answered.

        ```python
        print(wl.get_checkpoint(1).step)
        ```
        """
        is_id = isinstance(checkpoint_id, int) and not isinstance(checkpoint_id, bool)
        if not is_id and not (isinstance(checkpoint_id, str) and checkpoint_id):
            raise InvalidArgument(
                f"{shown(checkpoint_id)} is no checkpoint id: it is a whole number.",
                hint="See: windlass checkpoint ls",
            )
        path = path_of("checkpoints", checkpoint_id)
        return Checkpoint(self.transport, self.transport.ask("GET", path, CheckpointRecord))

    def list_checkpoints(
        self,
        *,
        trial: Trial[Any] | int | str | None = None,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[Checkpoint]:
        """Checkpoints of one trial or of all, lazily; `sort_by="-created"` is newest first.

        Those of a trial can be sorted by a metric, too: see `Trial.list_checkpoints`.

        ```python
        for checkpoint in wl.list_checkpoints(sort_by="-size", limit=5):
            print(checkpoint.trial_id, checkpoint.size)
        ```
        """
        return list_checkpoints(self.transport, trial, sort_by, limit)
