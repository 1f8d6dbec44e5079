"""Trials as users hold them: fully filled in, refreshed on demand."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union

from windlass.client.facts import Facts
from windlass.client.following import Following
from windlass.client.logs import LogLines
from windlass.client.metadata import NotedTrial, label_query
from windlass.client.naming import is_generated
from windlass.client.outcomes import Outcome, outcome_of
from windlass.client.pages import Listing, flag, walk
from windlass.client.queueing import Queueable
from windlass.client.repeating import Repeatable
from windlass.client.transport import Transport, path_of
from windlass.client.trial_files import WithFiles
from windlass.model.errors import InvalidArgument, WaitTimeout, WindlassError, shown
from windlass.model.quantities import format_duration, parse_duration
from windlass.model.records import (
    TrialRecord,
)
from windlass.model.wire import (
    AskToStop,
    Deleted,
    ScaleTrial,
    StopTrial,
    StreamEnd,
    TrialPage,
)

if TYPE_CHECKING:
    from datetime import date

    from windlass.client.checkpoints import Checkpoint
    from windlass.client.metrics import Metrics
    from windlass.client.moments import Moment
    from windlass.comparing.trials import Diff

R = TypeVar("R")
When = Union[float, str, "date"]  # `2026-11-16`, "2h" for so long ago, a date or a datetime


class Trial(Facts, Repeatable, NotedTrial, Queueable, WithFiles, Generic[R]):
    """One recorded execution: its parameters, state, log and value.

    All of it is here once the object is; `refresh()` asks the server again.

    ```python
    trial = train.submit(0.1)
    trial.wait()
    print(trial.state, trial.result())
    ```
    """

    def refresh(self) -> Trial[R]:
        """Ask the server how it stands now."""
        path = path_of("trials", self.id)
        self._learn(self._transport.ask("GET", path, TrialRecord))
        return self

    def wait(self, timeout: float | str | None = None) -> Trial[R]:
        """Wait until it has ended. `WaitTimeout` if that takes longer than `timeout`."""
        self._wait(timeout)
        return self

    def result(self, timeout: float | str | None = None) -> R:
        """Its value, waiting for it if need be; the error it raised, if it raised one."""
        end = self._wait(timeout)
        value: R = self.outcome(end).get()
        return value

    def outcome(self, end: StreamEnd | None = None) -> Outcome:
        """What it came to, once it has ended; the end of its stream saves asking again."""
        return outcome_of(
            self._record,
            lambda: self._bytes("result", end.result if end else None),
            lambda: self._bytes("error", end.error if end else None),
            lambda: list(self.logs(tail=20)),
        )

    def stop(self, *, grace: float | str = 10.0, reason: str = "") -> Trial[R]:
        """Ask it to stop: its processes get SIGTERM, and SIGKILL after `grace`."""
        body = StopTrial(grace=seconds_of(grace) or 0.0, reason=reason)
        return self._steer("stop", body)

    def ask_to_stop(self, reason: str = "asked to stop") -> Trial[R]:
        """Ask its program to end by itself: `wl.should_stop()` says yes in it from now on.

        Nothing is forced: a program that never asks goes on. One that is queued or started again
        finds it, too; one that has ended stays as it is.

        ```python
        trial.ask_to_stop("the loss does not fall").wait()
        ```
        """
        return self._steer("ask-to-stop", AskToStop(reason=reason))

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
        that is none of its metrics is a `KeyError` that says which there are.

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
            self._transport, [self.id], name, group=group, role=role, index=index, attempt=attempt,
            max_points=max_points, follow=follow, timeout=seconds_of(timeout),
        )  # fmt: skip

    def delete(self) -> None:
        """Delete it, with its logs, metrics, checkpoints and files; it has to have ended.

        One that a generator built goes with all that it consists of. What others point to, too,
        stays; the space of the rest is freed by `wl.gc()`.

        ```python
        for trial in wl.list_trials(state="FAILED"):
            trial.delete()
        ```
        """
        self._transport.ask("DELETE", path_of("trials", self.id), Deleted)

    def suspend(self) -> Trial[R]:
        """Stop its processes without failing it; nothing of it runs until `resume()`.

        ```python
        trial.suspend()  # make room for something urgent
        ...
        trial.resume()
        ```
        """
        return self._steer("suspend")

    def resume(self) -> Trial[R]:
        """Start it again after `suspend()`, as soon as there is room; attempts count on."""
        return self._steer("resume")

    def scale(self, replicas: Mapping[str, int] | int | None = None, /, **by_role: int) -> Trial[R]:
        """Have other numbers of replicas while it goes on; roles that are not named stay.

        New replicas start when there is room; of those that go, the highest go first.

        ```python
        trial.scale(worker=4)
        trial.scale(4)  # if it has one role
        trial.scale({"data-loader": 2})  # a name that is no identifier
        ```
        """
        if replicas is not None and not isinstance(replicas, Mapping):
            replicas = {self._only_role(replicas, by_role): replicas}
        return self._steer("scale", _sizes({**(replicas or {}), **by_role}))

    def add(
        self,
        what: Any,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        env: Mapping[str, Any] | None = None,
        name: str | None = None,
        labels: Sequence[str] = (),
        identity: str | None = None,
        auxiliary: bool = False,
    ) -> Trial[Any]:
        """Inside a generator: start a trial that is part of this one.

        It takes what `Experiment.add` takes. The new trial has the parameters of this one
        besides its own, and this one succeeds when all that was added to it has.

        ```python
        def train_and_test(trial, lr):
            model = trial.add(wl.Job(wl.Command(["echo", "train"])), args={"lr": lr})
            model.wait()
            trial.add(wl.Job(wl.Command(["echo", "test"])))


        with wl.create_experiment("two-steps") as exp:
            exp.add(train_and_test, args={"lr": 0.1})
        ```
        """
        from windlass.authoring.adding import Wish
        from windlass.authoring.generators import add_to
        from windlass.client.session import Client

        wish = Wish(args, env, name, labels, identity, auxiliary, self.id, self.params)
        try:
            return add_to(self._record, Client.over(self._transport), what, wish)
        except WindlassError as error:
            failure = error.with_traceback(None)  # our frames tell users nothing
        raise failure

    @property
    def children(self) -> list[Trial[Any]]:
        """The trials that its generator added, oldest first, as they stand now.

        ```python
        for child in wl.get_trial(3).children:
            print(child.id, child.state, child.params)
        ```
        """
        return list(list_trials(self._transport, parent_id=self.id))

    @property
    def parent(self) -> Trial[Any] | None:
        """The trial whose generator added it, as it stands now; none if nobody's did."""
        if self._record.parent_id is None:
            return None
        path = path_of("trials", self._record.parent_id)
        return Trial(self._transport, self._transport.ask("GET", path, TrialRecord))

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
            self._transport, self.id, query, head=head, tail=tail, follow=follow
        )
        counted = None
        if search is not None and not follow and head is None and tail is None:
            counted = partial(log_pages.count, self._transport, {**query, "trials": self.id})
        return LogLines(log_pages.lines(found, self._record), counted)

    def list_checkpoints(
        self, sort_by: str = "number", limit: int | None = None
    ) -> Iterator[Checkpoint]:
        """What it saved, oldest first, lazily, a page at a time.

        `sort_by` takes `number`, `step`, `created`, `size` or a metric, as reported at the step
        of each or last before; those without one come last. With a `-` the greatest come first.

        ```python
        best = next(wl.get_trial(3).list_checkpoints(sort_by="loss"), None)
        ```
        """
        from windlass.client.checkpoints import list_checkpoints

        return list_checkpoints(self._transport, self.id, sort_by, limit)

    def diff(self, other: Trial[Any] | int) -> Diff:
        """What differs between this trial and another: code, arguments, environment, outcome.

        ```python
        diff = wl.get_trial(3).diff(7)
        print(diff)  # what is the same is left out
        print([file.path for file in diff.code], diff.arguments)
        ```
        """
        from windlass.client.comparison import diff_with

        return diff_with(self, other)

    def __await__(self) -> Generator[Any, None, R]:
        return self._result_async().__await__()

    async def _result_async(self) -> R:
        """Wait in a thread of its own that ends with the waiting task."""
        if self.is_finished:
            finished: R = self.outcome().get()
            return finished
        following = Following(self._transport, trial_id=self.id, logs=False)
        from windlass.client.awaiting import in_thread

        end = await in_thread(
            lambda: self._follow_to_end(following), following.cut, f"windlass-wait-{self.id}"
        )
        value: R = self.outcome(end).get()
        return value

    def _wait(self, timeout: float | str | None) -> StreamEnd | None:
        """Wait until it has ended; the end of its stream, if it was followed that far."""
        if self.is_finished:
            return None
        seconds = seconds_of(timeout)
        following = Following(self._transport, trial_id=self.id, logs=False, timeout=seconds)
        try:
            return self._follow_to_end(following)
        except WaitTimeout:
            if self.refresh().is_finished:  # it had ended, and there was no time to hear of it
                return None
            raise

    def _only_role(self, size: object, by_role: Mapping[str, int]) -> str:
        """The role that a number without a name is of."""
        roles = [role.name for role in self._record.spec.roles]
        if len(roles) == 1 and not by_role:
            return roles[0]
        raise InvalidArgument(
            f"Trial {self.id} ({self.name}) has the roles {', '.join(roles)}: say which is to have "
            f"{shown(size)}.",
            hint='Name them: scale({"' + '": 2, "'.join(roles) + '": 2})',
        )

    def _steer(self, how: str, body: Any = None) -> Trial[R]:
        path = path_of("trials", self.id, how)
        self._learn(self._transport.ask("POST", path, TrialRecord, body=body))
        return self

    def _learn(self, record: TrialRecord) -> None:
        self._record = record
        self._events = None  # more has happened since they were asked for

    def _follow_to_end(self, following: Following) -> StreamEnd | None:
        for news in following:
            if isinstance(news, StreamEnd):
                self._learn(news.trial)
                return news
            if isinstance(news, TrialRecord):
                self._learn(news)
        return None

    def _bytes(self, kind: str, at_hand: bytes | None) -> bytes:
        if at_hand is not None:
            return at_hand
        return self._transport.fetch("GET", path_of("trials", self.id, kind))

    def __reduce__(self) -> tuple[Any, ...]:
        """A trial can be sent along: it arrives as it was, asking the server there."""
        return _revive, (self._record,)

    def __repr__(self) -> str:
        record = self._record
        since = ""
        if record.started is not None and record.ended is not None:
            since = f" in {format_duration(record.ended - record.started)}"
        return f"<Trial {record.id} {record.name}: {record.state.value}{since}>"


def _revive(record: TrialRecord) -> Trial[Any]:
    from windlass.client.session import default_client

    return Trial(default_client().transport, record)


def list_trials(
    transport: Transport,
    *,
    experiment: str | int | None = None,
    experiment_id: int | None = None,
    project: str | None = None,
    state: str | Sequence[str] | None = None,
    name: str | None = None,
    labels: str | Sequence[str] | None = None,
    user: str | None = None,
    kind: str | Sequence[str] | None = None,
    created_after: When | None = None,
    created_before: When | None = None,
    where: str | None = None,
    origin_id: int | None = None,
    parent_id: int | None = None,
    archived: bool | None = None,
    sort_by: str = "id",
    limit: int | None = None,
) -> Listing[Trial[Any]]:
    """Trials that match, lazily: each page is asked for when it is needed."""
    if isinstance(experiment, int):
        experiment, experiment_id = None, experiment
    query: dict[str, Any] = {
        "experiment": experiment,
        "experiment_id": experiment_id,
        "project": project,
        "state": _listed(state, str.upper),
        "name": name,
        "labels": label_query(labels),
        "user": user,
        "kind": _listed(kind, str.lower),
        "created_after": _time_of("created_after", created_after),
        "created_before": _time_of("created_before", created_before),
        "where": where,
        "origin_id": origin_id,
        "parent_id": parent_id,
        "archived": flag(archived),
        "sort": sort_by,
    }
    pages = walk(transport, "/trials", TrialPage, query, limit)
    return pages.each(lambda record: Trial(transport, record))


def _listed(given: str | Sequence[str] | None, spelt: Callable[[str], str]) -> str | None:
    chosen = [given] if isinstance(given, str) else given
    return ",".join(map(spelt, chosen)) if chosen else None


def _time_of(argument: str, given: When | None) -> float | None:
    if given is None:
        return None
    from windlass.model.times import parse_time

    try:
        return parse_time(given)
    except ValueError as error:
        raise InvalidArgument(f"{argument}: {error}.") from None


def _sizes(replicas: Mapping[str, Any]) -> ScaleTrial:
    problems = [
        f"{role}={shown(size)}: a number of replicas is a whole number from 0 to 10000"
        for role, size in replicas.items()
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= 10_000
    ]
    problems += [f"{shown(role)} is no name of a role" for role in replicas if not _is_name(role)]
    if not replicas:
        problems.append("scale() needs a role and its number of replicas: scale(worker=4)")
    if problems:
        raise InvalidArgument.of(problems)
    return ScaleTrial(replicas=dict(replicas))


def _is_name(role: Any) -> bool:
    is_plain = isinstance(role, str) and role.isascii() and role.islower()
    return is_plain and role.replace("-", "").isalnum()


def seconds_of(timeout: float | str | None) -> float | None:
    """A time that a user wrote, in seconds; anything below nothing is nothing."""
    if timeout is None:
        return None
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and timeout <= 0:
        return 0.0
    return parse_duration(timeout)
