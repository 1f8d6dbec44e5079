"""Leader election among operator instances. Only the instance that holds a lease acts.

Instances for the same namespaces share a lease, whose name is derived from the namespaces. If the
holder has not renewed the lease for `LEASE_SECONDS`, a waiting instance can take the lease. The
holder measures this time with its own clock and stops acting well before it is over, so that two
instances never act at the same time. A waiting instance measures from the moment at which it last
saw the lease change, because the holder's clock may differ from its own.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone

import msgspec

from windlass.controller.clock import SystemClock
from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import LEASES, Object
from windlass.model.errors import KubernetesError, WindlassError

LEASE_NAME = "windlass-operator"  # for instances that watch all namespaces; see `lease_name`
LEASE_SECONDS = 10.0
RENEW_SECONDS = 7.0  # a holder that could not renew the lease for this long stops acting
RETRY_SECONDS = 2.0
_PATIENCE = 3.0  # seconds until a request fails; a request may be sent twice
_LEAST_PATIENCE = 0.25
_NOT_FOUND, _CONFLICT = 404, 409

_log = logging.getLogger(__name__)


def lease_name(namespaces: Sequence[str] = ()) -> str:
    """Return the name of the lease that all instances for the same namespaces share.

    Instances for different sets of namespaces have different leases and do not wait for each other.

    >>> lease_name(), lease_name(["lab", "team"]) == lease_name(["team", "lab", "lab"])
    ('windlass-operator', True)
    >>> lease_name(["lab"])
    'windlass-operator-a51146d3'
    """
    if not namespaces:
        return LEASE_NAME
    # Namespace names contain no commas.
    names = ",".join(sorted(set(namespaces)))
    return f"{LEASE_NAME}-{hashlib.sha256(names.encode()).hexdigest()[:8]}"


class LeaseObservation(msgspec.Struct, frozen=True):
    """A state of the lease and the time at which this instance first saw it."""

    holder: str = ""
    version: str = ""
    since: float = 0.0


def observe(before: LeaseObservation, lease: Object, now: float) -> LeaseObservation:
    """Return a new observation of a lease. Its time is `now` only if the lease changed.

    >>> lease = {"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": "a"}}
    >>> first = observe(LeaseObservation(), lease, 100.0)
    >>> observe(first, lease, 105.0).since
    100.0
    """
    version = str(lease["metadata"]["resourceVersion"])
    if version == before.version:
        return before
    return LeaseObservation(
        str((lease.get("spec") or {}).get("holderIdentity") or ""), version, now
    )


def can_acquire(observation: LeaseObservation, identity: str, now: float) -> bool:
    """Return whether the instance that has this identity can take or renew a lease.

    >>> held = LeaseObservation("a", "7", 100.0)
    >>> [can_acquire(held, who, now) for who, now in (("a", 101.0), ("b", 109.9), ("b", 110.0))]
    [True, False, True]
    """
    return observation.holder in ("", identity) or now - observation.since >= LEASE_SECONDS


def request_timeout(since: float) -> float:
    """Return the timeout for a request that is sent `since` seconds after the last renewal.

    A failed request is sent once more. Both attempts must end well before the lease expires.

    >>> request_timeout(0.0), request_timeout(5.0), request_timeout(60.0)
    (3.0, 1.0, 0.25)
    """
    return min(max((RENEW_SECONDS - since) / 2, _LEAST_PATIENCE), _PATIENCE)


def lease_spec(before: Object, identity: str, now: float) -> Object:
    """Return the spec that the instance `identity` writes to take or renew a lease."""
    is_renewal = before.get("holderIdentity") == identity
    transitions = int(before.get("leaseTransitions") or 0)
    moment = _micro_time(now)
    return {
        "holderIdentity": identity,
        "leaseDurationSeconds": int(LEASE_SECONDS),
        "acquireTime": before.get("acquireTime") if is_renewal else moment,
        "renewTime": moment,
        "leaseTransitions": transitions if is_renewal or not before else transitions + 1,
    }


class LeaderElection:
    """Holds the lease or waits until it is free. `is_leading` is set while this instance leads.

    The thread that renews the lease calls `on_gain` and `on_loss` alternately. Both must return
    quickly. Once `on_loss` has returned, another instance can lead.
    """

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        identity: str,
        *,
        name: str,
        on_gain: Callable[[], None],
        on_loss: Callable[[], None],
    ) -> None:
        self.identity = identity
        self.is_leading = threading.Event()  # set while this instance is the leader
        self.trouble = ""
        self._connection = connection
        self._namespace = namespace
        self._name = name
        self._on_gain, self._on_loss = on_gain, on_loss
        self._observation = LeaseObservation()
        self._waits_for = ""  # the holder that was last logged
        self._lease: Object | None = None
        self._renewed = 0.0  # when the last successful renewal started
        self._clock = SystemClock().monotonic  # also runs while the machine sleeps
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leading", daemon=True)

    @property
    def has_died(self) -> bool:
        """Whether the thread that renews the lease ended although `stop` was not called."""
        is_over = self._thread.ident is not None and not self._thread.is_alive()
        return is_over and not self._stopping.is_set()

    def start(self) -> None:
        """Start to compete for the lease."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Stop competing and release the lease, so that another instance can lead at once."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = self._clock()
            if self._try():
                self._renewed = began
                if not self.is_leading.is_set():
                    _log.info("leading as %s", self.identity)
                    self.is_leading.set()
                    self._on_gain()
            elif self.is_leading.is_set() and self._has_lost():
                self._lose()
            self._stopping.wait(max(RETRY_SECONDS - (self._clock() - began), 0.1))
        if self.is_leading.is_set():
            self._lose()
            self._release()

    def _has_lost(self) -> bool:
        is_late = self._clock() - self._renewed >= RENEW_SECONDS - RETRY_SECONDS
        return is_late or self._observation.holder not in ("", self.identity)

    def _lose(self) -> None:
        level = logging.INFO if self._stopping.is_set() else logging.WARNING
        _log.log(level, "no longer the leader")
        self.is_leading.clear()
        self._on_loss()

    def _try(self) -> bool:
        """Try to take or renew the operator's lease. Return True if this instance now holds it."""
        try:
            return self._take()
        except Exception as error:  # noqa: BLE001 -- after any error, the leader must stop
            if str(error) != self.trouble:
                is_expected = isinstance(error, WindlassError)
                _log.warning("the lease %s: %s", self._name, error, exc_info=not is_expected)
            self.trouble = str(error)
            return False

    def _take(self) -> bool:
        lease = self._lease if self.is_leading.is_set() else None
        if lease is None:
            lease = self._read()
        if lease is None:
            return False
        self._observation = observe(self._observation, lease, self._clock())
        if not can_acquire(self._observation, self.identity, self._clock()):
            if self._observation.holder != self._waits_for:
                _log.info("waiting: %s leads", self._observation.holder)
            self._waits_for = self._observation.holder
            self.trouble = ""
            return False
        self._waits_for = ""
        self._lease = None  # if the request fails, read the lease again
        spec = lease_spec(lease.get("spec") or {}, self.identity, time.time())
        new = self._write({**lease, "spec": spec})
        if new is None:
            current = self._read()  # reading the lease again shows its new holder
            self._observation = (
                observe(self._observation, current, self._clock()) if current else self._observation
            )
            return False
        self._lease = new
        self._observation = observe(self._observation, new, self._clock())
        self.trouble = ""
        return True

    def _request(self, method: str, path: str, body: Object | None = None) -> Object:
        """Send a request about the lease, with a timeout that ends before the lease expires.

        The request is not repeated if the API server is busy.
        """
        leads = self.is_leading.is_set()
        limit = request_timeout(self._clock() - self._renewed) if leads else _PATIENCE
        answer: Object = self._connection.request(method, path, body, timeout=limit, once=True)
        return answer

    def _read(self) -> Object | None:
        """Return the operator's lease object. If there is none, create it first."""
        path = LEASES.path(self._namespace, self._name)
        try:
            lease = self._request("GET", path)
        except KubernetesError as error:
            if error.status != _NOT_FOUND:
                raise
        else:
            return lease
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.name,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": lease_spec({}, self.identity, time.time()),
        }
        try:
            created = self._request("POST", LEASES.path(self._namespace), body)
        except KubernetesError as error:
            if error.status != _CONFLICT:
                raise
            return None
        return created

    def _write(self, lease: Object) -> Object | None:
        """Write the lease and return it, or return None if another instance wrote it first."""
        path = LEASES.path(self._namespace, self._name)
        try:
            new = self._request("PUT", path, lease)
        except KubernetesError as error:
            if error.status not in (_CONFLICT, _NOT_FOUND):
                raise
            return None
        return new

    def _release(self) -> None:
        if self._lease is None:
            return
        spec = {**self._lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            self._write({**self._lease, "spec": spec})
        except WindlassError as error:
            _log.info("the lease %s was not released and will expire: %s", self._name, error)


def _micro_time(now: float) -> str:
    return datetime.fromtimestamp(now, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
