"""What a trial leaves behind as it runs: its log, its metrics, its checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from windlass.client.logs import LogLines
from windlass.client.naming import is_generated
from windlass.client.waits import seconds_of
from windlass.model.records import TrialRecord

if TYPE_CHECKING:
    from windlass.client.checkpoints import Checkpoint
    from windlass.client.metrics import Metrics
    from windlass.client.moments import Moment
    from windlass.client.pages import Listing
    from windlass.client.transport import Transport


class Recorded:
    """A trial with what it wrote, reported and saved."""

    _transport: Transport
    _record: TrialRecord

    def logs(
        self,
        *,
        follow: bool = False,
        tail: int | None = None,
        head: int | None = None,
        search: str | None = None,
        regex: bool = False,
        stream: str | None = None,
        role: str | None = None,
        index: int | None = None,
        attempt: int | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> LogLines:
        """The lines it wrote, oldest first, for `for` or `async for`.

        `follow` goes on until it ends, `tail` begins with the last so many, `head` ends after the
        first, `search` keeps those that contain a text or, with `regex=True`, match an expression;
        `stream` is `"stdout"` or `"stderr"`. `since` and `until` are datetimes, seconds since the
        epoch, or `"10m"` (ago). Of several replicas the lines come in the order of time; `role`,
        `index` and `attempt` keep those of some. Of a generator's trial they are those of its
        children, one after the other or, with `follow`, as they come; `role` and `replica_index`
        of a line are the child's name and id.

        ```python
        for line in trial.logs(role="worker", index=0, since="10m"):
            print(line.time, line)
        print(trial.logs(search="loss=(nan|inf)", regex=True).count())
        ```
        """
        from windlass.client import log_pages

        log_pages.check_ends(head, tail)
        query = log_pages.filters(
            search=search, regex=regex, stream=stream, role=role, index=index, attempt=attempt,
            since=since, until=until,
        )  # fmt: skip
        if is_generated(self._record):
            from windlass.client import family_logs

            found = family_logs.parts_of(
                self._transport, self._record, query, head=head, tail=tail, follow=follow
            )
            return LogLines(log_pages.lines(found, self._record))
        found = log_pages.pages(
            self._transport, self._record.id, query, head=head, tail=tail, follow=follow
        )
        counted = None
        if search is not None and not follow and head is None and tail is None:
            counted = partial(
                log_pages.count, self._transport, {**query, "trials": self._record.id}
            )
        return LogLines(log_pages.lines(found, self._record), counted)

    def metrics(
        self,
        name: str | Sequence[str] | None = None,
        *,
        group: str | None = None,
        attempt: int | None = None,
        role: str | None = None,
        index: int | None = None,
        max_points: int | None = None,
        follow: bool = False,
        timeout: float | str | None = None,
    ) -> Metrics:
        """The points it reported so far, of one metric, of some or of all.

        They come by replica and attempt, and each metric's in the order it was reported in. After
        a restart a step may come again, of another `attempt`. Of a trial that has ended, a name
        that is none of its metrics is a `wl.NotFound` (and `KeyError`) that says which there are.

        `max_points` has fewer come, spikes among them; `follow=True` has them come as they are
        reported, until the trial ends, also with `async for`.

        ```python
        for point in trial.metrics("loss"):
            print(point.step, point.value, point.role, point.index, point.attempt)
        print(trial.metrics("loss", group="validation", max_points=1000).to_pandas())
        ```
        """
        from windlass.client.metrics import metrics_of

        return metrics_of(
            self._transport, [self._record.id], name, group=group, role=role, index=index,
            attempt=attempt, max_points=max_points, follow=follow, timeout=seconds_of(timeout),
        )  # fmt: skip

    def list_checkpoints(
        self, sort_by: str = "number", limit: int | None = None
    ) -> Listing[Checkpoint]:
        """What it saved, oldest first, lazily, a page at a time.

        `sort_by` takes `number`, `step`, `created`, `size` or a metric, as reported at the step
        of each or last before; those without one come last. With a `-` the greatest come first.

        ```python
        best = next(wl.get_trial(3).list_checkpoints(sort_by="loss"), None)
        ```
        """
        from windlass.client.checkpoints import list_checkpoints

        return list_checkpoints(self._transport, self._record.id, sort_by, limit)
