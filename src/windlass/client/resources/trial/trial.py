"""Defines `wl.Trial`, one recorded execution.

Most methods only delegate to another module of this package. The properties that only read the
record are in `properties.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from windlass.client.arguments.timeouts import parse_timeout
from windlass.client.connection.event_stream import TrialEvents
from windlass.client.connection.transport import request_path
from windlass.client.resources.trial.outcome import Outcome, outcome_of, tail_of
from windlass.client.resources.trial.properties import TrialProperties
from windlass.model.errors import WaitTimeout, WindlassError
from windlass.model.records import TrialRecord
from windlass.model.requests import AskToStop, Deleted, StopTrial, StreamEnd
from windlass.model.run_time import seconds_run
from windlass.model.text.quantities import format_duration

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from typing_extensions import Self

    from windlass.authoring.prepare.add_to_experiment import AddOptions
    from windlass.authoring.public.executors import Local
    from windlass.client.arguments.times import Moment
    from windlass.client.connection.pages import Listing
    from windlass.client.connection.transport import Transport
    from windlass.client.resources.checkpoint import Checkpoint
    from windlass.client.resources.experiment.experiment import Experiment
    from windlass.client.resources.stored_files import OutputFile
    from windlass.client.resources.trial.logs.lines import LogLines
    from windlass.client.resources.trial.metrics import Metrics
    from windlass.client.resources.trial.queue import Task
    from windlass.comparison.trials import Diff

R = TypeVar("R")


class Trial(TrialProperties, Generic[R]):
    """One recorded execution, with its parameters, state, log and return value.

    The object holds the record as last fetched. Call `refresh()` to fetch the current record.

    ```python
    trial = train.submit(0.1)
    trial.wait()
    print(trial.state, trial.result())
    ```
    """

    # -- waiting for the end ------------------------------------------------------------

    def wait(self, timeout: float | str | None = None) -> Self:
        """Wait until the trial has ended. After `timeout`, raise `WaitTimeout`."""
        self._wait(timeout)
        return self

    def result(self, timeout: float | str | None = None) -> R:
        """Wait until the trial has ended, then return its value or raise its exception."""
        end = self._wait(timeout)
        value: R = self.outcome(end).get()
        return value

    def outcome(
        self,
        end: StreamEnd | None = None,
        is_shown: Callable[[str], bool] = lambda _text: False,
    ) -> Outcome:
        """Return a finished trial's outcome, which is a value or an error.

        `end` is the last event in the trial's stream. It often contains all data, which saves
        requests. The error does not repeat text for which `is_shown` returns True.
        """
        return outcome_of(
            self._record,
            lambda: self._bytes("result", end.result if end else None),
            lambda: self._bytes("error", end.error if end else None),
            lambda: tail_of(self),
            is_shown,
        )

    # -- output, metrics, checkpoints, files ----------------------------------------------

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
        """Return an iterator over the log's lines, oldest first, for `for` or `async for`.

        With `follow`, the iterator waits for new lines until the trial ends. `tail=10` starts with
        the last 10 lines, and `head=10` stops after the first 10 lines. `search` selects lines that
        contain the given text or, with `regex=True`, match it as a regular expression. `stream` is
        `"stdout"` or `"stderr"`. `since` and `until` limit the time of the lines: a datetime,
        seconds since the epoch, or `"10m"` for ten minutes ago.

        Lines from several replicas are sorted by time. Use `role`, `index` and `attempt` to select
        replicas. The log of a generator's trial consists of its child trials' logs, one after
        another, or in order of arrival with `follow`. The `role` and `replica_index` of such a line
        are the child trial's name and id.

        ```python
        for line in trial.logs(role="worker", index=0, since="10m"):
            print(line.time, line)
        print(trial.logs(search="loss=(nan|inf)", regex=True).count())
        ```
        """
        from windlass.client.resources.trial.logs.pages import filters
        from windlass.client.resources.trial.logs.read_log import read_log

        query = filters(
            search=search, regex=regex, stream=stream, role=role, index=index, attempt=attempt,
            since=since, until=until,
        )  # fmt: skip
        return read_log(self._transport, self._record, query, follow=follow, tail=tail, head=head)

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
        """Return the points that the trial has reported, for one, several or all metrics.

        The points are grouped by replica and attempt, in the order of reporting. After a restart,
        the same step may appear again with a different `attempt`. If a finished trial has no metric
        with the name, iterating raises `wl.NotFound`, which is also a `KeyError` and lists the
        trial's metrics.

        `max_points` limits the number of points, but keeps spikes visible. With `follow=True`,
        iterating also yields new points as they are reported, until the trial ends. `async for`
        works as well.

        ```python
        for point in trial.metrics("loss"):
            print(point.step, point.value, point.role, point.index, point.attempt)
        print(trial.metrics("loss", group="validation", max_points=1000).to_pandas())
        ```
        """
        from windlass.client.resources.trial.metrics import fetch_metrics

        return fetch_metrics(
            self._transport, [self.id], name, group=group, role=role, index=index,
            attempt=attempt, max_points=max_points, follow=follow, timeout=parse_timeout(timeout),
        )  # fmt: skip

    def list_checkpoints(
        self, sort_by: str = "number", limit: int | None = None
    ) -> Listing[Checkpoint]:
        """List the trial's checkpoints, oldest first.

        `sort_by` is `number`, `step`, `created`, `size` or a metric name. To sort by a metric, its
        value at the checkpoint's step is used, or else its last earlier value. Checkpoints without
        a value come last. A leading `-` sorts in descending order. Pages are fetched on demand.

        ```python
        best = next(wl.get_trial(3).list_checkpoints(sort_by="loss"), None)
        ```
        """
        from windlass.client.resources.checkpoint import list_checkpoints

        return list_checkpoints(self._transport, self.id, sort_by, limit)

    def list_artifacts(
        self, pattern: str | None = None, *, role: str | None = None, index: int | None = None
    ) -> Listing[OutputFile]:
        """List the files that the trial has written, even while it runs.

        These are the files in `wl.output_dir()`, and new or changed files in the working copy of
        the project. Each file has `name` (its path in the folder), `size`, `modified`, and the
        `role` and `index` of the replica that wrote it. In `pattern`, a `*` matches any characters,
        including `/`. Caches, hidden files, files saved as checkpoints, pipes, sockets, devices and
        links that lead out of the folder are left out.

        ```python
        for artifact in wl.get_trial(3).list_artifacts("*.png"):
            print(artifact.name, artifact.size)
        ```
        """
        from windlass.client.resources.stored_files import output_file
        from windlass.client.resources.trial.artifacts import list_outputs

        files = list_outputs(self._transport, self.id, pattern=pattern, role=role, index=index)
        return files.map(output_file)

    def download_artifacts(
        self,
        folder: str | os.PathLike[str],
        pattern: str | None = None,
        *,
        role: str | None = None,
        index: int | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Download the files in `trial.list_artifacts()`. Return the target folder.

        The target folder is created if needed. If the trial has several replicas, each replica gets
        its own sub-folder, such as `worker-0`. Existing files are not downloaded again, so you can
        repeat an interrupted download to continue it. A different file with the same name raises
        `wl.Conflict`, unless `overwrite` is true.

        ```python
        wl.get_trial(3).download_artifacts("results", "*.pt")
        ```
        """
        from windlass.client.resources.trial.artifacts import download_outputs

        return download_outputs(
            self._transport, self._record, folder,
            pattern=pattern, role=role, index=index, overwrite=overwrite,
        )  # fmt: skip

    def download_tensorboard(self, folder: str | os.PathLike[str]) -> Path:
        """Download the trial's TensorBoard files.

        These are the files in `wl.tensorboard_dir()`, and event files in any other folder of
        artifacts, such as `runs`. Call this method again to update the files. If the trial has
        several replicas, each replica gets its own sub-folder, which TensorBoard shows as a run.

        ```python
        wl.get_trial(3).download_tensorboard("runs/3")
        ```
        """
        from windlass.client.resources.trial.artifacts import download_tensorboard

        return download_tensorboard(self._transport, self._record, folder)

    def download_code(self, folder: str | os.PathLike[str]) -> Path:
        """Write the trial's code snapshot to a folder and return the folder's path.

        The folder is created if needed. If the roles have different code, each role gets its own
        sub-folder. If the folder already contains other files, an error is raised. If it already
        contains the same files, they stay unchanged.

        ```python
        wl.get_trial(3).download_code("code-of-3")
        ```
        """
        from windlass.client.resources.download import download_trial

        return download_trial(self._transport, self._record, folder)

    def list_tasks(self, *, limit: int | None = None) -> Listing[Task]:
        """List every attempt of the trial's replicas, with its resources, machine and outcome.

        ```python
        for task in trial.list_tasks():
            print(task.name, task.state, task.devices, task.address, task.started, task.exit_code)
        ```
        """
        from windlass.client.resources.trial.queue import list_tasks

        return list_tasks(self._transport, self.id, limit)

    # -- control ------------------------------------------------------------------------

    def stop(self, *, grace: float | str = 10.0, reason: str = "", force: bool = False) -> Self:
        """Stop the trial. Its processes receive SIGTERM and, after `grace`, SIGKILL.

        If the trial runs in pods and the cluster does not respond, the trial stays STOPPING until
        the cluster responds. With `force`, the trial ends immediately. Its message then states that
        pods may still be running, and how to delete them. Windlass deletes them once the cluster
        responds.
        """
        return self._post(
            "stop", StopTrial(grace=parse_timeout(grace) or 0.0, reason=reason, force=force)
        )

    def ask_to_stop(self, reason: str = "asked to stop") -> Self:
        """Ask the trial's program to end by itself.

        From now on, `wl.should_stop()` returns True in the program. A program that never calls this
        function continues. The request remains in effect if the trial starts or restarts later. A
        finished trial does not change.

        ```python
        trial.ask_to_stop("the loss does not fall").wait()
        ```
        """
        return self._post("ask-to-stop", AskToStop(reason=reason))

    def suspend(self) -> Self:
        """Suspend the trial by stopping its processes. `resume()` starts them again.

        ```python
        trial.suspend()  # free its resources for something urgent
        ...
        trial.resume()
        ```
        """
        return self._post("suspend")

    def resume(self) -> Self:
        """Restart a suspended trial as soon as there is capacity.

        Attempt numbers keep increasing.
        """
        return self._post("resume")

    def scale(self, replicas: Mapping[str, int] | int | None = None, /, **by_role: int) -> Self:
        """Change a running trial's number of replicas. Roles that are not named stay unchanged.

        New replicas start when there is capacity. Surplus replicas end from the highest index down.

        ```python
        trial.scale(worker=4)
        trial.scale(4)  # if it has one role
        trial.scale({"data-loader": 2})  # a name that is not an identifier
        ```
        """
        from windlass.client.resources.trial.control import scale_request

        return self._post("scale", scale_request(self._record, replicas, by_role))

    def set_priority(self, priority: int) -> Self:
        """Change the trial's priority. Trials with a higher priority start first.

        A queued trial moves immediately. Trials with the same priority start in the order of
        submission. For a running trial, the new priority takes effect when the trial is queued
        again, either because it is resumed or because it needs capacity for more replicas.

        ```python
        trial.set_priority(10)
        ```
        """
        from windlass.client.resources.trial.control import priority_request

        return self._post("priority", priority_request(priority))

    def move_ahead_of(self, other: Trial[Any] | int) -> Self:
        """Move the trial directly ahead of `other` in the queue, with the same priority.

        Both trials must be queued. If several trials are moved ahead of the same trial, the one
        moved last is directly ahead of it. All other trials keep their order.

        ```python
        first = next(wl.list_queue(), None)
        if first is not None and first.trial.id != trial.id:
            trial.move_ahead_of(first.trial)
        ```
        """
        from windlass.client.resources.trial.control import move_request

        return self._post("move", move_request(other))

    def delete(self) -> None:
        """Delete a finished trial with its logs, metrics, checkpoints and files.

        If the trial ran a generator, its child trials are deleted, too. Files shared with other
        trials stay. To free the disk space of the rest, call `wl.gc()`.

        ```python
        for trial in wl.list_trials(state="FAILED"):
            trial.delete()
        ```
        """
        self._transport.ask("DELETE", self._path, Deleted)

    # -- reruns, children, comparison ---------------------------------------------------

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
        """Start a new trial that repeats this trial, optionally with changes.

        ```python
        trial = train.submit(0.1)
        again = trial.rerun()  # the same code, the same arguments
        other = trial.rerun({"lr": 0.2}, executor=wl.Local(cpus=0.5))
        print(other.origin.id, other.params)
        ```

        The call returns without waiting. The code and the job come from the record, so the files in
        the working directory do not matter. If the installed packages differ from the recorded
        ones, a warning lists the differences.

        Args:
            args: changes to the arguments. A mapping changes arguments by name, and a list replaces
                a list. For a trial with several roles, pass a mapping from roles to changes, such
                as `{"learner": {"lr": 0.1}}`.
            env: changes to the environment variables. For several roles, pass a mapping from roles
                to changes.
            executor: changes to the resources. For example, `wl.Local(cpus=2)` changes the CPUs and
                keeps the memory and the accelerators. For several roles, pass a mapping from roles
                to executors.
            name: the new trial's name (default: the same name).
            experiment: the new trial's experiment, or the experiment's name (default: the same
                experiment).
            labels: the new trial's labels (default: none).
            environment: `"recorded"` reinstalls the packages that were recorded at submission. By
                default, the new trial uses the packages that are installed now.
            secrets: the values of the secrets, which Windlass does not record. By default, they
                come from this process's environment.
        """
        from windlass.authoring.rerun.rerun import Changes
        from windlass.client.resources.trial.rerun import submit_rerun

        changes = Changes(args, env, executor, name, experiment, labels, environment, secrets)
        return submit_rerun(self._transport, self._record, changes)

    def continue_(
        self,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        checkpoint: Checkpoint | int | str | None = None,
        env: Mapping[str, Any] | None = None,
        executor: Local | Mapping[str, Local] | None = None,
        name: str | None = None,
        experiment: str | Experiment | None = None,
        labels: Sequence[str] | None = None,
        environment: str | None = None,
        secrets: Mapping[str, str] | Sequence[str] | None = None,
    ) -> Trial[Any]:
        """Start a new trial that continues this finished trial from a checkpoint.

        The call returns without waiting. The new trial runs the same code. There,
        `wl.latest_checkpoint()` returns this trial's checkpoint until the new trial has saved its
        own. All other arguments are the same as in `rerun`.

        ```python
        trial = train.submit(0.1).wait()
        longer = trial.continue_({"lr": 0.01})
        print(longer.origin.id, longer.begins_with.step)
        ```

        Args:
            args: changes to the arguments.
            checkpoint: the checkpoint to continue from, or its id (default: the newest one).
        """
        from windlass.authoring.rerun.rerun import Changes
        from windlass.client.resources.trial import continue_from
        from windlass.client.resources.trial.rerun import submit_rerun

        continue_from.refuse_checkpoint("continue_", args)
        continue_from.check_is_finished(self._record)
        changes = Changes(
            args, env, executor, name, experiment, labels, environment, secrets,
            checkpoint=continue_from.checkpoint_uid(self._transport, self._record, checkpoint),
            is_fork=False,
        )  # fmt: skip
        return submit_rerun(self._transport, self._record, changes)

    def fork(
        self,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        checkpoint: Checkpoint | int | str | None = None,
        env: Mapping[str, Any] | None = None,
        executor: Local | Mapping[str, Local] | None = None,
        name: str | None = None,
        experiment: str | Experiment | None = None,
        labels: Sequence[str] | None = None,
        environment: str | None = None,
        secrets: Mapping[str, str] | Sequence[str] | None = None,
    ) -> Trial[Any]:
        """Start a new trial from a checkpoint of this trial, even if this trial is still running.

        All other arguments are the same as in `rerun`.

        ```python
        trial = train.submit(0.1).wait()
        best = next(trial.list_checkpoints(sort_by="loss"))
        other = trial.fork({"lr": 0.01}, checkpoint=best)
        ```

        Args:
            args: changes to the arguments.
            checkpoint: the checkpoint to start from, or its id (default: the newest one).
        """
        from windlass.authoring.rerun.rerun import Changes
        from windlass.client.resources.trial import continue_from
        from windlass.client.resources.trial.rerun import submit_rerun

        continue_from.refuse_checkpoint("fork", args)
        changes = Changes(
            args, env, executor, name, experiment, labels, environment, secrets,
            checkpoint=continue_from.checkpoint_uid(self._transport, self._record, checkpoint),
            is_fork=True,
        )  # fmt: skip
        return submit_rerun(self._transport, self._record, changes)

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
        """Start a child trial of this trial. Only a generator can call this method.

        The arguments are the same as in `Experiment.add`. The child trial also gets this trial's
        parameters. This trial succeeds once all child trials have succeeded.

        ```python
        def train_and_test(trial, lr):
            model = trial.add(wl.Job(wl.Command(["echo", "train"])), args={"lr": lr})
            model.wait()
            trial.add(wl.Job(wl.Command(["echo", "test"])))


        with wl.create_experiment("two-steps") as exp:
            exp.add(train_and_test, args={"lr": 0.1})
        ```
        """
        from windlass.authoring.prepare.add_to_experiment import AddOptions

        wish = AddOptions(args, env, name, labels, identity, auxiliary, self.id, self.params)
        try:
            return self._add(what, wish)
        except WindlassError as error:
            failure = error.with_traceback(None)  # hide Windlass frames from users
        raise failure

    def diff(self, other: Trial[Any] | int) -> Diff:
        """Return this trial's differences from `other` in code, arguments, environment and outcome.

        ```python
        diff = wl.get_trial(3).diff(7)
        print(diff)  # omits equal parts
        print([file.path for file in diff.code], diff.arguments)
        ```
        """
        from windlass.client.resources.comparison import diff_with

        return diff_with(self, other)

    @property
    def children(self) -> list[Trial[Any]]:
        """The child trials that this trial's generator added, oldest first.

        Each access fetches the trials.

        ```python
        for child in wl.get_trial(3).children:
            print(child.id, child.state, child.params)
        ```
        """
        from windlass.client.resources.trial.list_query import list_trials

        return list(list_trials(self._transport, parent_id=self.id))

    @property
    def parent(self) -> Trial[Any] | None:
        """The trial whose generator added this trial, or None. Each access fetches the trial."""
        return get_trial_or_none(self._transport, self._record.parent_id)

    @property
    def origin(self) -> Trial[Any] | None:
        """The trial that this trial repeats or continues, or None.

        ```python
        again = train.submit(0.1).rerun()
        print(again.origin.id)
        ```
        """
        return get_trial_or_none(self._transport, self._record.recipe.origin_id)

    @property
    def reruns(self) -> Listing[Trial[Any]]:
        """The trials that repeat or continue this trial, oldest first.

        ```python
        trial = train.submit(0.1)
        trial.rerun({"lr": 0.2})
        print([rerun.params for rerun in trial.reruns])
        ```
        """
        from windlass.client.resources.trial.list_query import list_trials

        return list_trials(self._transport, origin_id=self.id)

    @property
    def begins_with(self) -> Checkpoint | None:
        """The checkpoint, saved by another trial, that this trial started from, or None.

        ```python
        longer = train.submit(0.1).wait().continue_()
        print(longer.begins_with.step)
        ```
        """
        from windlass.client.resources.checkpoint import get_checkpoint

        uid = self._record.recipe.checkpoint
        return get_checkpoint(self._transport, uid) if uid else None

    # -- internals ----------------------------------------------------------------------

    def _add(self, what: Any, wish: AddOptions) -> Trial[Any]:
        from windlass.authoring.prepare.generators import add_to
        from windlass.client.client import Client

        return add_to(self._record, Client.over(self._transport), what, wish)

    def __await__(self) -> Generator[Any, None, R]:
        return self._result_async().__await__()

    async def _result_async(self) -> R:
        """Wait for the trial's end in a thread, which ends if the task is cancelled."""
        from windlass.client.connection.async_wait import in_thread

        end = None
        if not self.is_finished:
            following = TrialEvents(self._transport, trial_id=self.id, logs=False)
            end = await in_thread(
                lambda: self._follow_to_end(following), following.cut, f"windlass-wait-{self.id}"
            )
        value: R = self.outcome(end).get()
        return value

    def _wait(self, timeout: float | str | None) -> StreamEnd | None:
        """Wait until the trial has ended.

        Return the last event in its stream, or None if this call did not receive that event.
        """
        if self.is_finished:
            return None
        seconds = parse_timeout(timeout)
        following = TrialEvents(self._transport, trial_id=self.id, logs=False, timeout=seconds)
        from windlass.client.terminal.quiet_wait import showing_wait

        try:
            with showing_wait() as show:
                return self._follow_to_end(following, show)
        except WaitTimeout:
            if self.refresh().is_finished:  # the trial ended before the stream could report it
                return None
            raise

    def _follow_to_end(
        self, following: TrialEvents, show: Callable[[TrialRecord], None] = lambda _: None
    ) -> StreamEnd | None:
        for message in following:
            if isinstance(message, StreamEnd):
                self._replace(message.trial)
                show(message.trial)
                return message
            if isinstance(message, TrialRecord):
                self._replace(message)
                show(message)
        return None

    def _post(self, action: str, body: Any = None) -> Self:
        path = request_path("trials", self.id, action)
        return self._replace(self._transport.ask("POST", path, TrialRecord, body=body))

    def _bytes(self, kind: str, at_hand: bytes | None) -> bytes:
        if at_hand is not None:
            return at_hand
        return self._transport.fetch("GET", request_path("trials", self.id, kind))

    def __repr__(self) -> str:
        record = self._record
        seconds = seconds_run(record)
        duration = "" if seconds is None else f" in {format_duration(seconds)}"
        return f"<{type(self).__name__} {record.id} {record.name}: {record.state.value}{duration}>"

    def _repr_html_(self) -> str | None:
        from windlass.client.resources.notebook_html import trial_html

        return trial_html(self._transport, self._record)


def get_trial(transport: Transport, trial_id: int) -> Trial[Any]:
    """Fetch the trial with the given id."""
    return Trial(transport, transport.ask("GET", request_path("trials", trial_id), TrialRecord))


def get_trial_or_none(transport: Transport, trial_id: int | None) -> Trial[Any] | None:
    """Fetch the trial with the given id. Return None if the id is None."""
    return None if trial_id is None else get_trial(transport, trial_id)
