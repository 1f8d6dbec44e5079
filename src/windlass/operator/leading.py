"""Leading: of several instances one acts, the one that holds a lease; the others stand by.

Instances that look after the same namespaces share a lease, whose name follows from these.

A lease that was not renewed for `LEASE_SECONDS` is free. Its holder stops acting well before that,
by its own clock, so that there are never two; who stands by goes by when it last saw the lease
change, not by the other's clock.
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
from windlass.kube.connecting import Connection
from windlass.kube.kinds import LEASES, Object
from windlass.model.errors import KubernetesError, WindlassError

LEASE_NAME = "windlass-operator"  # of those that look after all namespaces; see `lease_name`
LEASE_SECONDS = 10.0
RENEW_SECONDS = 7.0  # without having renewed it for so long, its holder gives up
RETRY_SECONDS = 2.0
_PATIENCE = 3.0  # seconds for an answer of the API, which may be asked for twice
_LEAST_PATIENCE = 0.25
_NOT_FOUND, _CONFLICT = 404, 409

_log = logging.getLogger(__name__)


def lease_name(namespaces: Sequence[str] = ()) -> str:
    """The lease of those who look after the same namespaces, or after all.

    Those who look after others have another lease: they do not stand in each other's way.

    >>> lease_name(), lease_name(["lab", "team"]) == lease_name(["team", "lab", "lab"])
    ('windlass-operator', True)
    >>> lease_name(["lab"])
    'windlass-operator-a51146d3'
    """
    if not namespaces:
        return LEASE_NAME
    # Names of namespaces have no commas.
    told = ",".join(sorted(set(namespaces)))
    return f"{LEASE_NAME}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"


class Sight(msgspec.Struct, frozen=True):
    """What a lease last was, and when that was first seen."""

    holder: str = ""
    version: str = ""
    since: float = 0.0


def seen(before: Sight, lease: Object, now: float) -> Sight:
    """The sight of a lease; a change of it counts from when it is seen.

    >>> lease = {"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": "a"}}
    >>> first = seen(Sight(), lease, 100.0)
    >>> seen(first, lease, 105.0).since
    100.0
    """
    version = str(lease["metadata"]["resourceVersion"])
    if version == before.version:
        return before
    return Sight(str((lease.get("spec") or {}).get("holderIdentity") or ""), version, now)


def may_take(sight: Sight, identity: str, now: float) -> bool:
    """Whether a lease is free for the one of that identity.

    >>> held = Sight("a", "7", 100.0)
    >>> [may_take(held, who, now) for who, now in (("a", 101.0), ("b", 109.9), ("b", 110.0))]
    [True, False, True]
    """
    return sight.holder in ("", identity) or now - sight.since >= LEASE_SECONDS


def patience(since: float) -> float:
    """How long the holder of a lease waits for an answer, so long after it renewed the lease.

    An answer that does not come is asked for once more: both must be over well before the lease is.

    >>> patience(0.0), patience(5.0), patience(60.0)
    (3.0, 1.0, 0.25)
    """
    return min(max((RENEW_SECONDS - since) / 2, _LEAST_PATIENCE), _PATIENCE)


def lease_spec(before: Object, identity: str, now: float) -> Object:
    """What a lease says once it is taken, or renewed."""
    is_renewal = before.get("holderIdentity") == identity
    turns = int(before.get("leaseTransitions") or 0)
    moment = _micro_time(now)
    return {
        "holderIdentity": identity,
        "leaseDurationSeconds": int(LEASE_SECONDS),
        "acquireTime": before.get("acquireTime") if is_renewal else moment,
        "renewTime": moment,
        "leaseTransitions": turns if is_renewal or not before else turns + 1,
    }


class Leading:
    """Holds the lease, or waits for it; see `start`, `led` and `stop`.

    `on_gain` and `on_loss` are called in turn, from the thread that renews the lease: neither may
    take long, and after `on_loss` another may lead.
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
        self.led = threading.Event()  # whether this is the one that acts
        self.trouble = ""
        self._connection = connection
        self._namespace = namespace
        self._name = name
        self._on_gain, self._on_loss = on_gain, on_loss
        self._sight = Sight()
        self._waits_for = ""  # who leads, as was said
        self._lease: Object | None = None
        self._renewed = 0.0  # when that was last begun which went well
        self._clock = SystemClock().monotonic  # which goes on while the machine sleeps
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leading", daemon=True)

    @property
    def has_died(self) -> bool:
        """Whether it tries no more, though nobody has stopped it."""
        is_over = self._thread.ident is not None and not self._thread.is_alive()
        return is_over and not self._stopping.is_set()

    def start(self) -> None:
        """Begin to try."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Lead no more, and let another do it at once."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = self._clock()
            if self._try():
                self._renewed = began
                if not self.led.is_set():
                    _log.info("leading as %s", self.identity)
                    self.led.set()
                    self._on_gain()
            elif self.led.is_set() and self._has_lost():
                self._lose()
            self._stopping.wait(max(RETRY_SECONDS - (self._clock() - began), 0.1))
        if self.led.is_set():
            self._lose()
            self._release()

    def _has_lost(self) -> bool:
        is_late = self._clock() - self._renewed >= RENEW_SECONDS - RETRY_SECONDS
        return is_late or self._sight.holder not in ("", self.identity)

    def _lose(self) -> None:
        level = logging.INFO if self._stopping.is_set() else logging.WARNING
        _log.log(level, "leading no more")
        self.led.clear()
        self._on_loss()

    def _try(self) -> bool:
        """Take or renew the lease; whether it is ours now."""
        try:
            return self._take()
        except Exception as error:  # noqa: BLE001 -- whatever it is, who cannot renew it must stop
            if str(error) != self.trouble:
                is_known = isinstance(error, WindlassError)
                _log.warning("the lease %s: %s", self._name, error, exc_info=not is_known)
            self.trouble = str(error)
            return False

    def _take(self) -> bool:
        lease = self._lease if self.led.is_set() else None
        if lease is None:
            lease = self._read()
        if lease is None:
            return False
        self._sight = seen(self._sight, lease, self._clock())
        if not may_take(self._sight, self.identity, self._clock()):
            if self._sight.holder != self._waits_for:
                _log.info("waiting: %s leads", self._sight.holder)
            self._waits_for = self._sight.holder
            self.trouble = ""
            return False
        self._waits_for = ""
        self._lease = None  # whatever comes of it: it is read again, unless this goes well
        spec = lease_spec(lease.get("spec") or {}, self.identity, time.time())
        new = self._write({**lease, "spec": spec})
        if new is None:
            found = self._read()  # whose it is now: if another's, we lead no more
            self._sight = seen(self._sight, found, self._clock()) if found else self._sight
            return False
        self._lease = new
        self._sight = seen(self._sight, new, self._clock())
        self.trouble = ""
        return True

    def _ask(self, method: str, path: str, body: Object | None = None) -> Object:
        """Not for longer than the lease lasts: a busy server is asked again by the next try."""
        leads = self.led.is_set()
        limit = patience(self._clock() - self._renewed) if leads else _PATIENCE
        answer: Object = self._connection.request(method, path, body, timeout=limit, once=True)
        return answer

    def _read(self) -> Object | None:
        """The lease as it is; made first, if there is none."""
        path = LEASES.path(self._namespace, self._name)
        try:
            found = self._ask("GET", path)
        except KubernetesError as error:
            if error.status != _NOT_FOUND:
                raise
        else:
            return found
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.name,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": lease_spec({}, self.identity, time.time()),
        }
        try:
            made = self._ask("POST", LEASES.path(self._namespace), body)
        except KubernetesError as error:
            if error.status != _CONFLICT:
                raise
            return None
        return made

    def _write(self, lease: Object) -> Object | None:
        """The lease as it now is; none if another was first."""
        path = LEASES.path(self._namespace, self._name)
        try:
            new = self._ask("PUT", path, lease)
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
            _log.info("the lease %s is left to run out: %s", self._name, error)


def _micro_time(now: float) -> str:
    return datetime.fromtimestamp(now, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
