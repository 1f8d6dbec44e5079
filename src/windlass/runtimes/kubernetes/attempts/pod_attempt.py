"""An attempt that runs in a pod, described by the files that its agent uploads and by the pod.

If the attempt has an exit record, that record alone determines the result. An agent exits only
after it has uploaded all results of its program. If a pod ended without an exit record, it was
killed or its agent never started.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from windlass.kube.api.resource_kinds import Object, location_of, uid_of
from windlass.kube.diagnosis.pod import explain
from windlass.kube.pod_state import OUT_OF_MEMORY, START_FAILED, PodState, read_pod_state
from windlass.model.status import GIVEN_UP, Phase, Pod, Replica, ReplicaId
from windlass.runtimes import paths
from windlass.runtimes.attempt_files import AttemptFiles, storable
from windlass.runtimes.kubernetes.objects.manifests import CONTAINER
from windlass.worker.common.atomic_files import write_json, write_json_once
from windlass.worker.common.file_reads import exists, read_json

# Facts about the attempt's pod. The file is written when the pod is created and updated whenever
# the pod is observed.
POD = "pod.json"
_LEFT = "left-abroad.json"
SETTLING = 2.0  # seconds that uploads may take after the pod has ended
HAND_OVER = 30.0  # seconds that an agent has to upload its results before its pod is deleted
STUCK = 60.0  # seconds after which an overdue pod counts as deleted, because its node is lost


class _PodRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts about a pod, which remain on disk after the pod or the server process has ended."""

    name: str
    uid: str
    namespace: str = ""
    image: str = ""
    image_id: str = ""
    node: str = ""


class _Facts(msgspec.Struct, frozen=True):
    python: str = ""
    platform: str = ""
    packages: str | None = None


class PodAttempt(AttemptFiles):
    """The files of one attempt that runs in a pod.

    The cluster's clock may differ from ours. An event's age is therefore measured with `clock`,
    from the moment at which this process first saw the event. After a server restart, the
    measurement starts again.
    """

    def __init__(
        self,
        uid: str,
        replica: ReplicaId,
        path: Path,
        address: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(uid, replica, path)
        self._address = address
        self._noted: _PodRecord | None = None
        self._facts: _Facts | None = None
        self._waits_for = ""  # why the attempt has not started, if known
        self._final_seen = _FirstSight(clock)
        self._leaving_seen = _FirstSight(clock)
        self._settles_at = 0.0  # based on the `now` that was last passed to `observe`

    @property
    def node(self) -> str:
        noted = self._known_pod()
        return "" if noted is None else noted.node

    @property
    def pod(self) -> Pod | None:
        """The attempt's pod, including the facts that its agent reported when it started."""
        noted = self._known_pod()
        if noted is None:
            return None
        if self._facts is None:
            self._facts = self._read(paths.FACTS, _Facts)
        facts = self._facts or _Facts()
        return Pod(
            namespace=noted.namespace,
            name=noted.name,
            image=storable(noted.image),
            image_id=storable(noted.image_id),
            python=storable(facts.python),
            platform=storable(facts.platform),
            packages=facts.packages,
        )

    @property
    def address(self) -> str:
        return self._address

    @property
    def was_made(self) -> bool:
        """Whether a pod was ever created for the attempt. The pod might be deleted by now."""
        return exists(self.path / POD)

    @property
    def is_stop_requested(self) -> bool:
        return exists(self.path / paths.STOP)

    @property
    def was_taken_up(self) -> bool:
        """Whether an agent requested this attempt's launch file.

        Such a request shows that a pod existed.
        """
        return exists(self.path / paths.TAKEN_UP) or self.was_begun

    def is_unwanted(self) -> bool:
        """Return whether the attempt has ended, must stop, or belongs to a deleted trial."""
        return self.has_ended or self.is_stop_requested or not self.was_requested

    def has_pod(self, pod: Object) -> bool:
        """Return whether `pod` belongs to this attempt.

        The check compares uids and ignores labels.
        """
        noted = self._known_pod()
        return noted is not None and noted.uid == uid_of(pod)

    def note_made(self, pod: Object) -> None:
        """Record that the attempt's pod was created.

        The pod's node and final image are recorded later.
        """
        self._note(_pod_record(pod))

    def request_stop(self, grace: float, *, interrupt: bool = False) -> None:
        """Store a stop request for the agent.

        If the attempt has not started, the request also stores the reason, for a later exit record.
        """
        order = {"grace": grace, "interrupt": interrupt, "waited_for": self._waits_for}
        write_json(self._file(paths.STOP), {**order, "reason": ""})

    def record_never_started(self) -> None:
        """Write the exit record of an attempt that was stopped before its pod started."""
        waited_for = (read_json(self._file(paths.STOP)) or {}).get("waited_for")
        why = f": {waited_for}" if isinstance(waited_for, str) and waited_for else ""
        self.record_end("Stopped", f"stopped before it was started{why}")

    def time_to_stop(self) -> float:
        """Return the stop request's grace period in seconds, or 0 if there is no stop request."""
        grace = (read_json(self._file(paths.STOP)) or {}).get("grace")
        return float(grace) if isinstance(grace, (int, float)) else 0.0

    def observe(
        self, pod: Object | None, *, is_seen: bool, waits_for: str, now: float, unseen: str = ""
    ) -> Replica:
        """Return the state of the attempt.

        If the pod ended without an exit record, write the record.

        A missing pod counts as deleted only if `is_seen` is true, which means that the watch
        contains all pods and that the pod was created before the watch was read. `waits_for` is the
        reason why the attempt has not started. `unseen` is the reason why a started attempt's state
        is outdated.
        """
        ended = self._ended()
        if ended is not None:
            return ended
        if pod is None:
            return self._without_pod(is_seen=is_seen, waits_for=waits_for, unseen=unseen)
        state = read_pod_state(pod, CONTAINER)
        self._note_seen(pod)
        if not self._address and state.address:
            self._address = state.address
        if state.phase.is_final:
            return self._after_pod(pod, state, now)
        if self._is_stuck(pod):
            self.record_end("Lost", "its node does not answer, and it was being stopped", ended=now)
            return self._ended() or self._pending("", "its node does not answer")
        if state.phase is Phase.RUNNING and self.was_begun:
            return self._seen_living(deleting=state.deleting, unseen=unseen or state.message)
        # This reason comes from the pod alone, because its events have not been read yet.
        waits_for = waits_for or str(explain(pod, (), now) or "")
        return self._pending(waits_for, _in_words(state), deleting=state.deleting)

    def observe_elsewhere(self, message: str, abandoned_message: str, now: float) -> Replica:
        """Return the last known state of an attempt whose pod is in another cluster.

        If the attempt must stop and its grace period is over, end the attempt with
        `abandoned_message`.
        """
        if self._had_time_to_end(now):
            return self.give_up(abandoned_message)
        ended = self._ended()
        if ended is not None:
            return ended
        is_ending = self.is_stop_requested
        if self.was_begun:
            return self._seen_living(deleting=is_ending, unseen=message)
        return self._pending(message, deleting=is_ending)

    def give_up(self, message: str) -> Replica:
        """End the attempt although its pod is out of reach and might still run.

        If this method ends the attempt, `is_left` is true afterwards.
        """
        if not self.has_ended and (self.was_made or self.was_taken_up):
            if not self.is_stop_requested:  # the agent may still run
                self.request_stop(0.0)
            write_json(self._file(_LEFT), {})
            self.record_end(GIVEN_UP, message)
        elif not self.has_ended:
            self.record_never_started()
        return self._ended() or self._pending(message)

    @property
    def is_left(self) -> bool:
        """Whether the attempt was ended although its pod was out of reach and might still run."""
        return exists(self.path / _LEFT)

    def left_before(self) -> Iterator[PodAttempt]:
        """Yield this replica's earlier attempts for which `is_left` is true, newest first."""
        for number in range(self.replica.attempt - 1, 0, -1):
            replica = ReplicaId(self.replica.role, self.replica.index, number)
            path = self.path.with_name(str(number))
            before = PodAttempt(self.uid, replica, path, self._address)
            if before.is_left:
                yield before

    def _had_time_to_end(self, now: float) -> bool:
        """Return whether a stop was requested and the time to stop and upload results is over."""
        try:
            requested = os.stat(self._file(paths.STOP)).st_mtime
        except FileNotFoundError:
            return False
        return not self.was_begun or now > requested + self.time_to_stop() + HAND_OVER

    def settles_at(self, pod: Object) -> float | None:
        """Return when the attempt will count as ended, or None if its pod has not finished.

        Call this method directly after `observe`, because the time is based on the `now` passed
        there.
        """
        is_final = read_pod_state(pod, CONTAINER).phase.is_final
        return self._settles_at if is_final and not self.has_ended else None

    def record_end(
        self,
        reason: str,
        message: str,
        *,
        exit_code: int | None = None,
        started: float | None = None,
        ended: float | None = None,
    ) -> None:
        """Write the attempt's exit record, because its agent wrote none."""
        # Messages have no final period, because they become part of other sentences.
        message = message if message.endswith("..") else message.removesuffix(".")
        record = self._end(reason, message, ended or time.time())
        record |= {"exit_code": exit_code, "started": record["started"] or started}
        write_json_once(self._file(paths.EXIT), record)

    def _without_pod(self, *, is_seen: bool, waits_for: str, unseen: str) -> Replica:
        if not self.was_made:
            return self._pending(waits_for, "being created")
        if not is_seen:
            # Keep the last known state. An attempt must not end only because its cluster is out of
            # reach.
            if self.was_begun:
                return self._seen_living(unseen=unseen)
            return self._pending(waits_for, "starting")
        if self.is_stop_requested and not self.was_begun:
            self.record_never_started()
        elif self.is_stop_requested:
            self.record_end("Stopped", "")
        else:
            self.record_end("Lost", "its pod was deleted, but not by Windlass")
        return self._ended() or self._pending("", "starting")

    def _after_pod(self, pod: Object, state: PodState, now: float) -> Replica:
        # If the pod also ended long ago by the cluster's clock, there is nothing to wait for.
        left = SETTLING - max(self._final_seen.age(pod), now - (state.ended or 0.0))
        if left > 0:
            # Wait for uploads that are still on their way, because they may contain the exit
            # record.
            self._settles_at = now + left
            seen = self._seen_living() if self.was_begun else self._pending("", "ending")
            return Replica(**{**_fields(seen), "ended": state.ended or now})
        # If the agent never started, the container's last output is the only explanation.
        explanation = explain(pod, (), now, log="" if self.was_taken_up else state.message)
        end = self._end_of(state, "" if explanation is None else str(explanation))
        started = state.started or None  # 0 means that it never started
        self.record_end(*end[:2], exit_code=end[2], started=started, ended=state.ended)
        return self._ended() or self._pending("", "ending")

    def _is_stuck(self, pod: Object) -> bool:
        """Return whether the pod's deletion is long overdue. Its node is then probably lost."""
        if "deletionTimestamp" not in pod["metadata"]:
            return False
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        return self._leaving_seen.age(pod) > grace + STUCK

    def _end_of(self, state: PodState, why: str) -> tuple[str, str, int | None]:
        """Return the reason, message and exit code of a pod that ended without an exit record."""
        code = state.exit_code
        if self.is_stop_requested:
            return "Stopped", state.message, code or None
        if state.reason == OUT_OF_MEMORY:
            return OUT_OF_MEMORY, why or "it needed more memory than it requested", code
        if state.reason == START_FAILED:
            return START_FAILED, why or state.message, None
        if code is None:
            return "Lost", why or _in_words(state), None
        if not self.was_begun and state.deleting:
            return "Evicted", "its pod was removed before its program started", None
        if not self.was_begun:
            output = f": {state.message}" if state.message else ", without output"
            message = (
                f"its container ended with exit code {code} before its program started{output}"
            )
            return START_FAILED, why or message, code or None
        if code > 128:
            return "Signal", why or state.message or "its pod was killed", code
        # The agent's exit code is not the program's exit code.
        message = state.message or "no reason is given"
        return (
            "Lost",
            f"its pod ended before it reported the result of its program: {message}",
            None,
        )

    def _known_pod(self) -> _PodRecord | None:
        if self._noted is None:  # this process has neither read nor written the record yet
            self._noted = self._read(POD, _PodRecord)
        return self._noted

    def _note_seen(self, pod: Object) -> None:
        """Record the pod's node and image as soon as the cluster reports them."""
        noted, seen = self._known_pod(), _pod_record(pod)
        if noted is None or noted.uid != seen.uid:
            return  # `note_made` must run first
        now = msgspec.structs.replace(
            seen, node=seen.node or noted.node, image_id=seen.image_id or noted.image_id
        )
        if now != noted:
            self._note(now)

    def _note(self, noted: _PodRecord) -> None:
        write_json(self._file(POD), msgspec.to_builtins(noted))
        self._noted = noted

    def _seen_living(self, *, deleting: bool = False, unseen: str = "") -> Replica:
        seen = self._living()
        changes = {
            "deleting": seen.deleting or deleting,
            "message": storable(unseen) or seen.message,
        }
        return Replica(**{**_fields(seen), **changes})

    def _pending(self, why: str, otherwise: str = "", *, deleting: bool = False) -> Replica:
        """Return the state of an attempt that has not started, including the reason if known."""
        is_ending = deleting or self.is_stop_requested
        if not is_ending:
            self._waits_for = storable(why)
        return self._replica(
            phase=Phase.PENDING, message=storable(why or otherwise), deleting=is_ending
        )


class _FirstSight:
    """Remembers when this process first saw a pod in a certain state."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # the pod's uid and the time at which the state was first seen
        self._first: tuple[str, float] = ("", 0.0)

    def age(self, pod: Object) -> float:
        """Return the seconds since this process first saw the pod in this state.

        The first call for a pod returns 0.
        """
        now = self._clock()
        if self._first[0] != uid_of(pod):
            self._first = (uid_of(pod), now)
        return now - self._first[1]


def _pod_record(pod: Object) -> _PodRecord:
    namespace, name = location_of(pod)
    return _PodRecord(
        name=name,
        uid=uid_of(pod),
        namespace=namespace,
        image=_of_container(pod["spec"].get("containers"), "image"),
        image_id=_of_container((pod.get("status") or {}).get("containerStatuses"), "imageID"),
        node=str(pod["spec"].get("nodeName") or ""),
    )


def _of_container(listed: Any, field: str) -> str:
    """Return a field of the program's container from one of a pod's lists of containers."""
    for container in listed or ():
        if container.get("name") == CONTAINER:
            return str(container.get(field) or "")
    return ""


def _fields(replica: Replica) -> dict[str, Any]:
    return {name: getattr(replica, name) for name in Replica.__struct_fields__}


def _in_words(state: PodState) -> str:
    if state.reason and state.message:
        return f"{state.reason}: {state.message}"
    return state.message or state.reason or ("starting" if state.node else "waiting for a node")
