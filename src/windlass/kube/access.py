"""Early checks: whether the cluster answers, knows us, has the namespace, and lets us work there.

Rights are asked for in one request (`SelfSubjectRulesReview`). Its answer may lack what a rule
outside of roles allows, so that what it does not grant is asked again one by one
(`SelfSubjectAccessReview`): the usual case is one round trip, and no right is said to be missing
that is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from windlass.kube.connecting import Connection
from windlass.kube.deeds import Deed
from windlass.kube.refusals import not_allowed
from windlass.kube.rights import RUNNING, Right, granted
from windlass.model.errors import KubernetesError

_REVIEWS = "/apis/authorization.k8s.io/v1"
_AT_ONCE = 8
_QUICK = 20.0  # seconds that a check may take


def server_version(connection: Connection) -> str:
    """The version of the cluster: `v1.33.1`."""
    said = connection.request("GET", "/version", timeout=_QUICK)
    return str((said or {}).get("gitVersion") or "")


def account_name(connection: Connection) -> str:
    """Who the cluster says we are; where it cannot say, who we seem to be."""
    for version in ("v1", "v1beta1"):
        body = {"apiVersion": f"authentication.k8s.io/{version}", "kind": "SelfSubjectReview"}
        path = f"/apis/authentication.k8s.io/{version}/selfsubjectreviews"
        try:
            said = connection.request("POST", path, body, timeout=_QUICK)
        except KubernetesError as error:
            if error.status in (403, 404):  # before 1.27 there is none
                continue
            raise
        return str(said["status"]["userInfo"].get("username") or connection.account)
    return connection.account


def check_known(connection: Connection) -> None:
    """That the cluster answers, and accepts who we say we are."""
    is_allowed(connection, Deed(verb="list", resource="pods", namespace=connection.namespace))


def check_namespace(connection: Connection, namespace: str) -> None:
    """That the namespace is there, and stays."""
    try:
        said = connection.request("GET", f"/api/v1/namespaces/{namespace}", timeout=_QUICK)
    except KubernetesError as error:
        if error.status != 403:
            raise
        _try_namespace(connection, namespace)
        return
    if (said.get("status") or {}).get("phase") == "Terminating":
        raise KubernetesError(
            f"The namespace {namespace} is being deleted.",
            hint="Choose another (namespace= of wl.Kubernetes), or wait and make it anew.",
            status=409,
            reason="NamespaceTerminating",
        )


def _try_namespace(connection: Connection, namespace: str) -> None:
    """Few may look at namespaces; whoever may create in one learns by a try if it is there."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "windlass-check-"}}
    path = f"/api/v1/namespaces/{namespace}/secrets"
    try:
        connection.request("POST", path, secret, query={"dryRun": "All"}, timeout=_QUICK)
    except KubernetesError as error:
        if error.status in (404, 409) or "being deleted" in error.message:
            raise
        # Not allowed, or no room: what is said of that is said by the check of rights.


def missing_rights(
    connection: Connection, namespace: str, rights: Sequence[Right] = RUNNING
) -> list[Deed]:
    """Those of the rights that the account does not have there."""
    wanted = [deed for right in rights for deed in right.deeds(namespace)]
    if namespace:  # rules can only be listed of one
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }
        said = connection.request(
            "POST", f"{_REVIEWS}/selfsubjectrulesreviews", review, timeout=_QUICK
        )
        rules = (said.get("status") or {}).get("resourceRules") or ()
        wanted = [deed for deed in wanted if not granted(rules, deed)]
    return missing_deeds(connection, wanted)


def missing_deeds(connection: Connection, deeds: Sequence[Deed]) -> list[Deed]:
    """Those that the account may not do, each asked for by itself."""
    if not deeds:
        return []
    with ThreadPoolExecutor(min(_AT_ONCE, len(deeds))) as pool:
        answers = pool.map(lambda deed: is_allowed(connection, deed), deeds)
        return [deed for deed, allowed in zip(deeds, answers, strict=True) if not allowed]


def is_allowed(connection: Connection, deed: Deed) -> bool:
    """Whether the account may do one thing."""
    resource, _, part = deed.resource.partition("/")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "verb": deed.verb,
                "group": deed.group,
                "resource": resource,
                "subresource": part,
                "namespace": deed.namespace,
                "name": deed.name,
            }
        },
    }
    said = connection.request(
        "POST", f"{_REVIEWS}/selfsubjectaccessreviews", review, timeout=_QUICK
    )
    return bool((said.get("status") or {}).get("allowed"))


def check_access(connection: Connection, namespace: str, rights: Sequence[Right] = RUNNING) -> None:
    """That the account may do all of it there; what is missing is named, with how to grant it."""
    missing = missing_rights(connection, namespace, rights)
    if missing:
        raise lacking(missing, account_name(connection))


def lacking(missing: Sequence[Deed], account: str) -> KubernetesError:
    """The error of rights that are missing.

    >>> one = Deed(verb="create", resource="pods", namespace="lab")
    >>> two = Deed(verb="list", resource="events", namespace="lab")
    >>> print(lacking([one, two], "ada"))
    ada lacks 2 rights in namespace lab: create pods; list events.
      Somebody who may can grant them: windlass kubernetes rights --namespace lab --account ada \
| kubectl apply -f -
    """
    if len(missing) == 1:
        told = not_allowed(missing[0], account)
        return KubernetesError(told.sentence, hint=told.remedy, status=403, reason="Forbidden")
    namespace = missing[0].namespace
    kinds = [f"{deed.resource}.{deed.group}" if deed.group else deed.resource for deed in missing]
    listed = "; ".join(f"{deed.verb} {kind}" for deed, kind in zip(missing, kinds, strict=True))
    where = f" in namespace {namespace}" if namespace else ""
    return KubernetesError(
        f"{account or 'This account'} lacks {len(missing)} rights{where}: {listed}.",
        hint=granting(missing, account),
        status=403,
        reason="Forbidden",
    )


def granting(missing: Sequence[Deed], account: str) -> str:
    """How somebody who may grants them, all at once.

    >>> granting([Deed(verb="list", resource="events", namespace="lab")], "ada")
    'Somebody who may can grant it: windlass kubernetes rights --namespace lab --account ada | \
kubectl apply -f -'
    """
    namespace = missing[0].namespace
    return (
        f"Somebody who may can grant {'it' if len(missing) == 1 else 'them'}: "
        "windlass kubernetes rights"
        f"{f' --namespace {namespace}' if namespace else ''} --account {account or 'NAME'} "
        "| kubectl apply -f -"
    )
