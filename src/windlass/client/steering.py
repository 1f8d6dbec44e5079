"""Steering a trial: stopped, asked to end, suspended, scaled, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windlass.client.transport import path_of
from windlass.client.waits import seconds_of
from windlass.model.errors import InvalidArgument, shown
from windlass.model.records import TrialRecord
from windlass.model.wire import AskToStop, Deleted, ScaleTrial, StopTrial

if TYPE_CHECKING:
    from typing_extensions import Self

    from windlass.client.transport import Transport


class Steerable:
    """A trial that can be told what to do."""

    _transport: Transport
    _record: TrialRecord

    if TYPE_CHECKING:

        def _learn(self, record: TrialRecord) -> None: ...

    def stop(self, *, grace: float | str = 10.0, reason: str = "", force: bool = False) -> Self:
        """Ask it to stop: its processes get SIGTERM, and SIGKILL after `grace`.

        Of one in pods, whose cluster does not answer, that is waited for. With `force` it is given
        up: it ends, its message says that its pods may still run, and how to delete them, and they
        are deleted when the cluster answers again.
        """
        body = StopTrial(grace=seconds_of(grace) or 0.0, reason=reason, force=force)
        return self._steer("stop", body)

    def ask_to_stop(self, reason: str = "asked to stop") -> Self:
        """Ask its program to end by itself: `wl.should_stop()` says yes in it from now on.

        Nothing is forced: a program that never asks goes on. One that is queued or started again
        finds it, too; one that has ended stays as it is.

        ```python
        trial.ask_to_stop("the loss does not fall").wait()
        ```
        """
        return self._steer("ask-to-stop", AskToStop(reason=reason))

    def suspend(self) -> Self:
        """Stop its processes without failing it; nothing of it runs until `resume()`.

        ```python
        trial.suspend()  # make room for something urgent
        ...
        trial.resume()
        ```
        """
        return self._steer("suspend")

    def resume(self) -> Self:
        """Start it again after `suspend()`, as soon as there is room; attempts count on."""
        return self._steer("resume")

    def scale(self, replicas: Mapping[str, int] | int | None = None, /, **by_role: int) -> Self:
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

    def delete(self) -> None:
        """Delete it, with its logs, metrics, checkpoints and files; it has to have ended.

        One that a generator built goes with all that it consists of. What others point to, too,
        stays; the space of the rest is freed by `wl.gc()`.

        ```python
        for trial in wl.list_trials(state="FAILED"):
            trial.delete()
        ```
        """
        self._transport.ask("DELETE", path_of("trials", self._record.id), Deleted)

    def _only_role(self, size: object, by_role: Mapping[str, int]) -> str:
        """The role that a number without a name is of."""
        roles = [role.name for role in self._record.spec.roles]
        if len(roles) == 1 and not by_role:
            return roles[0]
        raise InvalidArgument(
            f"Trial {self._record.id} ({self._record.name}) has the roles {', '.join(roles)}: "
            f"say which is to have {shown(size)}.",
            hint='Name them: scale({"' + '": 2, "'.join(roles) + '": 2})',
        )

    def _steer(self, how: str, body: Any = None) -> Self:
        path = path_of("trials", self._record.id, how)
        self._learn(self._transport.ask("POST", path, TrialRecord, body=body))
        return self


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
