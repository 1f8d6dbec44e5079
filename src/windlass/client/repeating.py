"""Trials that repeat others: started again, and found by where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.authoring.executors import Local
    from windlass.authoring.repeating import Changes
    from windlass.client.checkpoints import Checkpoint
    from windlass.client.experiments import Experiment
    from windlass.client.pages import Listing
    from windlass.client.transport import Transport
    from windlass.client.trials import Trial
    from windlass.model.records import TrialRecord


class Repeatable:
    """What a trial knows of those that it repeats and that repeat it."""

    _transport: Transport
    _record: TrialRecord

    def rerun(
        self,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        env: Mapping[str, Any] | None = None,
        executor: Local | Mapping[str, Local] | None = None,
        name: str | None = None,
        experiment: str | Experiment | None = None,
        labels: Sequence[str] | None = None,
        environment: str | None = None,
        secrets: Mapping[str, str] | Sequence[str] | None = None,
    ) -> Trial[Any]:
        """Run the very same again, or with some things changed, as a new trial; at once.

        ```python
        trial = train.submit(0.1)
        again = trial.rerun()  # the same code, the same arguments
        other = trial.rerun({"lr": 0.2}, executor=wl.Local(cpus=0.5))
        print(other.origin.id, other.params)
        ```

        All of it comes from the record: what is in the working directory now does not matter.
        Where the packages are other than those that were recorded, it warns.

        Args:
            args: laid over those it had: a mapping changes them by name, a list takes the place
                of a list. Of a trial with several roles by role: `{"learner": {"lr": 0.1}}`.
            env: variables, laid over those it had; of several roles by role.
            executor: other resources: `wl.Local(cpus=2)`, which leaves memory and accelerator as
                they were; of several roles by role.
            name: what the new trial is called (the same).
            experiment: the experiment it belongs to (the same), by name or as it is.
            labels: its labels (none: those of the other were said of the other).
            environment: `"recorded"` rebuilds the packages it was made with; by default it
                has those that are installed now.
            secrets: the values of its secrets, which are not recorded (those set here).
        """
        from windlass.authoring.repeating import Changes

        return self._repeat(
            Changes(args, env, executor, name, experiment, labels, environment, secrets)
        )

    def continue_(
        self,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        checkpoint: Checkpoint | int | str | None = None,
        env: Mapping[str, Any] | None = None,
        executor: Local | Mapping[str, Local] | None = None,
        name: str | None = None,
        labels: Sequence[str] | None = None,
        environment: str | None = None,
        secrets: Mapping[str, str] | Sequence[str] | None = None,
    ) -> Trial[Any]:
        """Go on from a checkpoint of a trial that has ended, as a new trial; at once.

        The very same code finds the checkpoint in `wl.latest_checkpoint()` until it has saved one
        of its own. The other arguments are those of `rerun`.

        ```python
        trial = train.submit(0.1).wait()
        longer = trial.continue_({"lr": 0.01})
        print(longer.origin.id, longer.begins_with.step)
        ```

        Args:
            args: laid over those it had.
            checkpoint: the one to go on from, or its id (the newest).
        """
        from windlass.authoring.repeating import Changes
        from windlass.client.beginnings import refuse_to_go_on_twice, uid_to_begin_with

        refuse_to_go_on_twice(self._record)
        begin = uid_to_begin_with(self._transport, self._record, checkpoint)
        return self._repeat(
            Changes(
                args, env, executor, name, None, labels, environment, secrets,
                checkpoint=begin, is_fork=False,
            )
        )  # fmt: skip

    def fork(
        self,
        checkpoint: Checkpoint | int | str | None = None,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        env: Mapping[str, Any] | None = None,
        executor: Local | Mapping[str, Local] | None = None,
        name: str | None = None,
        experiment: str | Experiment | None = None,
        labels: Sequence[str] | None = None,
        environment: str | None = None,
        secrets: Mapping[str, str] | Sequence[str] | None = None,
    ) -> Trial[Any]:
        """Go another way from a checkpoint, as a new trial, whether or not this one goes on.

        ```python
        trial = train.submit(0.1).wait()
        best = next(trial.list_checkpoints(sort_by="loss"))
        other = trial.fork(best, {"lr": 0.01})
        ```

        Args:
            checkpoint: the one to begin with, or its id (the newest).
            args: laid over those it had. The other arguments are those of `rerun`.
        """
        from windlass.authoring.repeating import Changes
        from windlass.client.beginnings import uid_to_begin_with

        begin = uid_to_begin_with(self._transport, self._record, checkpoint)
        return self._repeat(
            Changes(
                args, env, executor, name, experiment, labels, environment, secrets,
                checkpoint=begin, is_fork=True,
            )
        )  # fmt: skip

    @property
    def begins_with(self) -> Checkpoint | None:
        """The checkpoint of another trial that this one goes on from, if it does.

        ```python
        longer = train.submit(0.1).wait().continue_()
        print(longer.begins_with.step)
        ```
        """
        if not self._record.recipe.checkpoint:
            return None
        from windlass.client.session import Client

        return Client.over(self._transport).get_checkpoint(self._record.recipe.checkpoint)

    def _repeat(self, changes: Changes) -> Trial[Any]:
        import warnings

        from windlass.authoring.repeating import prepare_rerun
        from windlass.client.session import Client
        from windlass.model.errors import WindlassError

        client = Client.over(self._transport)
        try:
            draft, notes = prepare_rerun(client, self._record, changes)
            for note in notes:
                warnings.warn(note, stacklevel=3)
            return client.submit(draft)
        except WindlassError as error:
            failure = error.with_traceback(None)  # our frames tell users nothing
        raise failure

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
    def reruns(self) -> Listing[Trial[Any]]:
        """The trials that repeat this one, oldest first, asked for as they are needed.

        ```python
        trial = train.submit(0.1)
        trial.rerun({"lr": 0.2})
        print([each.params for each in trial.reruns])
        ```
        """
        from windlass.client.listing import list_trials

        return list_trials(self._transport, origin_id=self._record.id)
