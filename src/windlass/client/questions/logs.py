"""Asking for what trials wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from windlass.client.listing import trial_ids
from windlass.client.logs import LogLines
from windlass.client.pages import check_limit, words
from windlass.client.questions.asker import Asker
from windlass.client.scopes import scope
from windlass.model.errors import InvalidArgument, shown

if TYPE_CHECKING:
    from windlass.client.experiments import Experiment
    from windlass.client.moments import Moment
    from windlass.client.places import Project
    from windlass.client.trials import Trial


class LogQuestions(Asker):
    """Logs of many trials."""

    def search_logs(
        self,
        text: str,
        *,
        regex: bool = False,
        trials: Iterable[Trial[Any] | int] | None = None,
        experiment: Experiment | str | int | None = None,
        project: Project | str | int | None = None,
        state: str | list[str] | None = None,
        name: str | None = None,
        labels: str | Sequence[str] | None = None,
        where: str | None = None,
        role: str | None = None,
        index: int | None = None,
        attempt: int | None = None,
        stream: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> LogLines:
        """Lines that contain a text, of all trials or of some, lazily, a page at a time.

        With `regex=True`, lines that match an expression. They come by trial, and know whose they
        are: `trial_id`, `trial_name`, `role`, `replica_index`, `attempt`, `time`. Trials are
        chosen as by `wl.list_trials`, also with `where`, or named; `since` and `until` are
        datetimes, seconds since the epoch, or `"10m"` (ago).

        ```python
        for line in wl.search_logs("CUDA out of memory", state="FAILED", since="1d"):
            print(line.trial_id, line.role, line.time, line)
        print(wl.search_logs("loss=(nan|inf)", regex=True, where="hparams.lr > 0.1").count())
        ```
        """
        from windlass.client import log_pages
        from windlass.client.attributes import label_query

        if not isinstance(text, str):
            raise InvalidArgument(f"{shown(text)} is nothing to search for: it is a text.")
        check_limit(limit)
        query = {
            **log_pages.filters(
                search=text, regex=regex, stream=stream, role=role, index=index, attempt=attempt,
                since=since, until=until,
            ),
            **scope("experiment", experiment),
            **scope("project", project),
            "state": words("state", state, str.upper),
            "name": name,
            "labels": label_query(labels),
            "where": where,
        }  # fmt: skip
        if trials is not None:
            ids = trial_ids(trials)
            if not ids:
                return LogLines(iter(()))
            query["trials"] = ",".join(map(str, ids))
        counted = partial(log_pages.count, self.transport, query) if limit is None else None
        return LogLines(log_pages.hits(self.transport, query, limit), counted)
