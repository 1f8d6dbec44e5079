"""What is seen of a cluster: the connection to it, and a watch of our pods in each namespace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from functools import partial

from windlass.kube.common_tries import CommonTry
from windlass.kube.connecting import Connection
from windlass.kube.kinds import PODS
from windlass.kube.login_programs import end_logins
from windlass.kube.watching import Change, Watcher
from windlass.model.errors import KubernetesError
from windlass.runtimes.kubernetes import naming, objects
from windlass.runtimes.kubernetes.abroad import HOW_TO_LOOK_THERE, Abroad, told_of
from windlass.runtimes.kubernetes.building import Claim
from windlass.runtimes.kubernetes.claims import Claims
from windlass.runtimes.kubernetes.errands import TOO_MANY, Errands, Failure, failure_of

_SOON = 2.0  # seconds that a connection may take for those who look after other jobs, too
_SHARED = 1.0  # seconds in which one that took longer, and failed, is not tried again
_LONGEST = 400  # characters of what is wrong: what can be done is said after it


class Sight:
    """The connection and the watches, made when they are first needed, and anew after a login."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        claims: Claims,
        errands: Errands,
        *,
        on_pod: Change,
        on_login: Callable[[], None],
        tell: Callable[[str], None],
    ) -> None:
        """`on_pod` hears of our pods, `tell` of jobs of which more or less is seen than before."""
        self._connect = connect
        self._claims = claims
        self._errands = errands
        self._on_pod = on_pod
        self._on_login = on_login
        self._tell = tell
        self._abroad = Abroad()
        # Held for moments: whoever looks at a job takes it, and must not wait for a login.
        self._lock = threading.RLock()
        self._renewal = CommonTry(self._renew)
        self._failure: KubernetesError | None = None  # why there is no connection of today
        self._shared_until = 0.0
        self._connection: Connection | None = None
        self._watchers: dict[str, Watcher] = {}  # by namespace

    @property
    def connection(self) -> Connection | None:
        """The connection, if there is one by now."""
        return self._connection

    def connected(self) -> Connection:
        """The connection, made when it is first needed, and anew after a login.

        That may take as long as a program has to log in: this is for those who can wait. Those
        who wait in a queue for that fail together, and not one login after the other.
        """
        if found := self._current():
            return found
        if self._failure is not None and time.monotonic() < self._shared_until:
            raise self._failure
        return self._renewal.result()

    def connected_soon(self) -> Connection:
        """The same for those who cannot: where it takes longer, the connection that was there.

        It is an error if there was none. What is done later in the cluster has the newest.
        """
        if found := self._current():
            return found
        failure = self._failure or KubernetesError(
            "There is no connection to the cluster yet: who logs us in takes longer than usual."
        )
        try:
            # After a failure nobody waits: what comes of another try is for whoever asks next.
            found = self._renewal.soon(0.0 if self._failure else _SOON)
        except KubernetesError as error:
            failure = error
        if found := found or self._connection:
            return found
        raise failure

    def _current(self) -> Connection | None:
        connection = self._connection
        return None if connection is None or connection.is_outdated else connection

    def _renew(self) -> Connection:
        if found := self._current():
            return found  # made by a try that ended a moment ago
        began = time.monotonic()
        try:
            connection = self._connect()
        except KubernetesError as error:  # which leaves everything as it is
            ended = time.monotonic()
            self._shared_until = ended + _SHARED if ended - began > _SOON else 0.0
            self._failure = error
            raise
        with self._lock:
            self._failure = None
            self._connection = connection
            outdated, self._watchers = list(self._watchers.values()), {}
            if outdated:  # before anything is begun with the new one
                self._on_login()
        for watcher in outdated:
            watcher.stop(timeout=0)
            self.tell_all(watcher.namespace)  # whoever still has a job there looks again
        return connection

    def connected_for(self, claim: Claim) -> Connection:
        """The connection to the cluster in which a job is; an error if that is another."""
        connection = self.connected()
        if self._is_abroad(claim, connection):
            raise KubernetesError(told_of(claim, connection.server), hint=HOW_TO_LOOK_THERE)
        return connection

    def abroad(self, claim: Claim) -> str | None:
        """What is said of a job of another cluster, nothing of others; none until it is known."""
        connection = self._connection
        is_abroad = None if connection is None else self._abroad.is_abroad(claim, connection)
        if connection is None or is_abroad is None:
            key = ("abroad", claim.uid)
            if not self._errands.is_wanted(key):
                self._errands.do(key, partial(self._look_where, claim))
            return None
        return told_of(claim, connection.server) if is_abroad else ""

    def trouble(self, claim: Claim) -> Failure:
        """Why nothing new is known of a job, if that was tried; else nothing."""
        watcher = self.now(claim.namespace)
        if watcher is not None and watcher.trouble is not None:
            return _shortened(failure_of(watcher.trouble))
        keys: list[Hashable] = [("reach", claim.uid)]
        if watcher is None:
            keys += [("abroad", claim.uid), ("watch", claim.namespace)]
        found = map(self._errands.failure, keys)
        return _shortened(next((each for each in found if each.message), Failure()))

    def reach(self, claim: Claim) -> None:
        """See whether the cluster of a job answers: a watch is silent for long before it fails."""
        self._errands.do(("reach", claim.uid), partial(self._reach, claim.uid))

    def _reach(self, uid: str) -> None:
        claim = self._claims.find(uid)
        if claim is not None and claim.is_begun:
            connection = self.connected_for(claim)
            try:
                objects.look(connection, objects.SECRETS, claim.namespace, claim.base)
            except KubernetesError as error:
                if error.status != TOO_MANY:  # it is there, and busy
                    raise

    def _look_where(self, claim: Claim) -> None:
        self._is_abroad(claim, self.connected())
        self._tell(claim.uid)

    def _is_abroad(self, claim: Claim, connection: Connection) -> bool:
        if self._abroad.look(claim, connection):
            return True
        if claim.is_begun:  # from now on it is known by this address, without a look
            self._claims.change(claim.uid, server=connection.place)
        return False

    def now(self, namespace: str) -> Watcher | None:
        """The watch of a namespace, if there is one."""
        with self._lock:
            return self._watchers.get(namespace)

    def watch(self, namespace: str) -> None:
        """Have the pods of a namespace seen, as soon as that can be."""
        key = ("watch", namespace)
        if self.now(namespace) is None and not self._errands.is_wanted(key):
            self._errands.do(key, partial(self.begin_watch, namespace))

    def begin_watch(self, namespace: str) -> Watcher:
        """The watch of a namespace, begun if there is none."""
        connection = self.connected()
        with self._lock:
            if namespace in self._watchers:
                return self._watchers[namespace]
            connection = self._connection or connection  # there may be a newer one by now
            made = Watcher(
                connection,
                PODS,
                namespace=namespace,
                selector=f"{naming.HOME}={self._claims.identity}",
                on_change=self._on_pod,
                on_trouble=lambda _error: self.tell_all(namespace),
                on_open=self._errands.wake,  # the cluster is back: what failed need not wait
            )
            self._watchers[namespace] = made
        made.start()
        # All that went while nobody looked is known to be gone only then.
        self._errands.do(("synced", namespace), partial(self._tell_when_synced, made))
        return made

    def close(self) -> None:
        """Let go of the cluster."""
        end_logins()  # whoever waits for one is not waited for
        with self._lock:
            watchers, self._watchers = list(self._watchers.values()), {}
            connection, self._connection = self._connection, None
        for watcher in watchers:
            watcher.stop()
        if connection is not None:
            connection.close()

    def _tell_when_synced(self, watcher: Watcher) -> None:
        if watcher.synced.wait(1.0) or watcher is not self.now(watcher.namespace):
            self.tell_all(watcher.namespace)
        else:
            again = partial(self._tell_when_synced, watcher)
            self._errands.do(("synced", watcher.namespace), again, after=0.2)

    def tell_all(self, namespace: str) -> None:
        """Have all jobs of a namespace looked at."""
        for claim in self._claims.all():
            if claim.namespace == namespace:
                self._tell(claim.uid)


def _shortened(failure: Failure) -> Failure:
    return failure._replace(message=failure.message[:_LONGEST].rstrip("."))
