"""Jobs that are abroad: in another cluster than the one that the server looks at now.

A server may be started again with another KUBECONFIG. Who takes pods for gone that are only out of
sight has them run twice. So a claim knows where it was made: the address of the API, and who
vouches for it. Anywhere else, and where that was not noted, the job's Secret, the owner of all that
it has, must be found: until then nothing is judged, and nothing made. What was never begun is
nowhere, and may begin anywhere.
"""

from __future__ import annotations

import math
import threading
import time

from windlass.kube.connecting import Connection
from windlass.kube.kinds import labels_of
from windlass.model.errors import KubernetesError
from windlass.runtimes.kubernetes import naming, objects
from windlass.runtimes.kubernetes.building import Claim

_NOT_FOUND = 404
_NOT_ALLOWED = (401, 403)  # which may pass: a cluster that has just started lets nobody in
_FRESH = 30.0  # seconds until one that let nobody look is looked at again


class Abroad:
    """Which jobs are in the cluster at an address. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By job and place: whether it is abroad, and until when that holds.
        self._known: dict[tuple[str, str], tuple[bool, float]] = {}

    def is_abroad(self, claim: Claim, connection: Connection) -> bool | None:
        """Whether a job is in another cluster than that one; none if nobody has looked yet."""
        if not claim.is_begun or claim.server == connection.place:
            return False
        with self._lock:
            found, until = self._known.get((claim.uid, connection.place), (None, 0.0))
        return found if time.monotonic() < until else None

    def look(self, claim: Claim, connection: Connection) -> bool:
        """See whether it is in another cluster."""
        known = self.is_abroad(claim, connection)
        if known is not None:
            return known
        until = math.inf
        try:
            owner = objects.look(connection, objects.SECRETS, claim.namespace, claim.base)
        except KubernetesError as error:
            if error.status not in (_NOT_FOUND, *_NOT_ALLOWED):
                raise
            owner = None
            if error.status in _NOT_ALLOWED:
                until = time.monotonic() + _FRESH
        found = owner is None or labels_of(owner).get(naming.UID) != claim.uid
        with self._lock:
            self._known[claim.uid, connection.place] = (found, until)
        return found


HOW_TO_LOOK_THERE = "windlass server stop, and start it with the KUBECONFIG that it had"


def told_of(claim: Claim, server: str) -> str:
    """What is said of such a job, where the server looks at the cluster of that address.

    >>> told_of(Claim(uid="", trial_id=1, namespace="", base="", home="", server="https://a"), "b")
    'its pods are in the cluster at https://a, and this server looks at b'
    """
    there = claim.server.partition(" ")[0]
    if not there:
        noted = "an earlier version did not note where its pods are"
        return f"{noted}, and nothing of it is in the cluster at {server}"
    if there == server:
        return f"its pods are in another cluster than the one that answers at {server} now"
    return f"its pods are in the cluster at {there}, and this server looks at {server}"


def told_of_left(claim: Claim, why: str) -> str:
    """What is said of one that is given up, while its pods may go on.

    >>> known = Claim(uid="c0ffee", trial_id=1, namespace="lab", base="", home="", server="a")
    >>> told_of_left(known, "https://a is away")
    'https://a is away. Its pods may still run there, and are deleted when ...; kubectl ...'
    """
    later = ", and are deleted when this server sees that cluster again" if claim.server else ""
    command = (
        f"kubectl --namespace {claim.namespace} delete pods,services,secrets "
        f"--selector {naming.UID}={claim.uid}"
    )
    return f"{why.rstrip('.')}. Its pods may still run there{later}; {command} does it by hand"
