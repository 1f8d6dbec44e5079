"""Asking who waits for room."""

from __future__ import annotations

from windlass.client.pages import Listing, walk
from windlass.client.questions.asker import Asker
from windlass.client.queueing import QueueEntry
from windlass.client.trials import Trial


class QueueQuestions(Asker):
    """The queue: who waits, for what, behind whom."""

    def list_queue(self, *, limit: int | None = None) -> Listing[QueueEntry]:
        """The trials that wait for room, the first to be let in first; lazily, a page at a time.

        Of those that run, those that wait for room to grow are among them.

        ```python
        for entry in wl.list_queue():
            print(entry.position, entry.trial.id, entry.why)
        ```
        """
        from windlass.model.queue import QueuePage

        found = walk(self.transport, "/queue", QueuePage, {}, limit)
        return found.each(
            lambda each: QueueEntry(
                Trial(self.transport, each.trial), each.position, each.why, each.ahead
            )
        )
