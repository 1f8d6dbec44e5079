"""Trials as users hold them: fully filled in, refreshed on demand."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from windlass.client.calls import call_methods_after
from windlass.client.facts import Facts
from windlass.client.following import Following
from windlass.client.metadata import NotedTrial
from windlass.client.outcomes import Outcome, outcome_of
from windlass.client.queueing import Queueable
from windlass.client.recorded import Recorded
from windlass.client.repeating import Repeatable
from windlass.client.steering import Steerable
from windlass.client.transport import path_of
from windlass.client.trial_files import WithFiles
from windlass.client.waits import seconds_of
from windlass.model.errors import WaitTimeout, WindlassError
from windlass.model.lasting import seconds_run
from windlass.model.quantities import format_duration
from windlass.model.records import TrialRecord
from windlass.model.wire import StreamEnd

if TYPE_CHECKING:
    from windlass.comparing.trials import Diff

R = TypeVar("R")


class Trial(Facts, Recorded, Steerable, Repeatable, NotedTrial, Queueable, WithFiles, Generic[R]):
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
        from windlass.client.listing import list_trials

        return list(list_trials(self._transport, parent_id=self.id))

    @property
    def parent(self) -> Trial[Any] | None:
        """The trial whose generator added it, as it stands now; none if nobody's did."""
        if self._record.parent_id is None:
            return None
        path = path_of("trials", self._record.parent_id)
        return Trial(self._transport, self._transport.ask("GET", path, TrialRecord))

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
        seconds = seconds_run(record)
        since = "" if seconds is None else f" in {format_duration(seconds)}"
        return f"<Trial {record.id} {record.name}: {record.state.value}{since}>"


call_methods_after(Trial, *Trial.__bases__)


def _revive(record: TrialRecord) -> Trial[Any]:
    from windlass.client.session import default_client

    return Trial(default_client().transport, record)
