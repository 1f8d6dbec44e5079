"""Jobs that are abroad: in another cluster than the one that the server looks at now.

A server may be started again with another KUBECONFIG. Who takes pods for gone that are only out of
sight has them run twice. So a claim knows the address at which it was made. At another address the
job's Secret, the owner of all that it has, must be there: else nothing is judged, and nothing made.
"""

from __future__ import annotations

import threading

from windlass.kube.connecting import Connection
from windlass.kube.kinds import labels_of
from windlass.model.errors import KubernetesError
from windlass.runtimes.kubernetes import naming, objects
from windlass.runtimes.kubernetes.building import Claim

_UNSEEN = (401, 403, 404)  # no such Secret, or nobody who may see it


class Abroad:
    """Which jobs are in the cluster at an address. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], bool] = {}  # by job and address: whether it is abroad

    def is_abroad(self, claim: Claim, server: str) -> bool | None:
        """Whether a job is in another cluster than that one; none if nobody has looked yet."""
        if claim.server in ("", server):
            return False
        with self._lock:
            return self._known.get((claim.uid, server))

    def look(self, claim: Claim, connection: Connection) -> bool:
        """See whether it is in another cluster."""
        known = self.is_abroad(claim, connection.server)
        if known is not None:
            return known
        try:
            owner = objects.look(connection, objects.SECRETS, claim.namespace, claim.base)
        except KubernetesError as error:
            if error.status not in _UNSEEN:
                raise
            owner = None
        found = owner is None or labels_of(owner).get(naming.UID) != claim.uid
        with self._lock:
            self._known[claim.uid, connection.server] = found
        return found


def told_of(claim: Claim, server: str) -> str:
    """What is said of such a job.

    >>> told_of(Claim(uid="", trial_id=1, namespace="", base="", home="", server="https://a"), "b")
    'its pods are in the cluster at https://a, and this server looks at b: windlass server stop, \
and start it with the KUBECONFIG that it had'
    """
    return (
        f"its pods are in the cluster at {claim.server}, and this server looks at {server}: "
        "windlass server stop, and start it with the KUBECONFIG that it had"
    )
