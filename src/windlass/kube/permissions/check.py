"""Checks that the cluster responds, accepts the account, has the namespace and grants permissions.

One request (`SelfSubjectRulesReview`) returns the permissions that roles grant. Its response may
lack permissions from other sources, so each missing permission is checked again on its own
(`SelfSubjectAccessReview`). One request is therefore usually enough, and a permission that exists
is never reported as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from windlass.kube.api.connection import Connection
from windlass.kube.errors.refusals import not_allowed
from windlass.kube.permission import Permission
from windlass.kube.permissions.required import RUNNING, PermissionRule, is_granted
from windlass.model.errors import KubernetesError

_REVIEWS = "/apis/authorization.k8s.io/v1"
_AT_ONCE = 8
_QUICK = 20.0  # seconds that a check may take


def server_version(connection: Connection) -> str:
    """Return the cluster's Kubernetes version, such as `v1.33.1`."""
    response = connection.request("GET", "/version", timeout=_QUICK)
    return str((response or {}).get("gitVersion") or "")


def account_name(connection: Connection) -> str:
    """Return the account name that the cluster reports, or else the name in the configuration."""
    for version in ("v1", "v1beta1"):
        body = {"apiVersion": f"authentication.k8s.io/{version}", "kind": "SelfSubjectReview"}
        path = f"/apis/authentication.k8s.io/{version}/selfsubjectreviews"
        try:
            response = connection.request("POST", path, body, timeout=_QUICK)
        except KubernetesError as error:
            if error.status in (403, 404):  # clusters before version 1.27 do not have this API
                continue
            raise
        return str(response["status"]["userInfo"].get("username") or connection.account)
    return connection.account


def check_account(connection: Connection) -> None:
    """Raise an error unless the cluster responds and accepts the account."""
    is_allowed(connection, Permission(verb="list", resource="pods", namespace=connection.namespace))


def check_namespace(connection: Connection, namespace: str) -> None:
    """Raise an error unless the namespace exists and is not being deleted."""
    try:
        response = connection.request("GET", f"/api/v1/namespaces/{namespace}", timeout=_QUICK)
    except KubernetesError as error:
        if error.status != 403:
            raise
        _try_namespace(connection, namespace)
        return
    if (response.get("status") or {}).get("phase") == "Terminating":
        raise KubernetesError(
            f"The namespace {namespace} is being deleted.",
            hint="Choose another (namespace= of wl.Kubernetes), or wait and create it again.",
            status=409,
            reason="NamespaceTerminating",
        )


def _try_namespace(connection: Connection, namespace: str) -> None:
    """Check with a dry run that a namespace exists.

    The check does not read the namespace, because few accounts have the permission to read
    namespaces.
    """
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "windlass-check-"}}
    path = f"/api/v1/namespaces/{namespace}/secrets"
    try:
        connection.request("POST", path, secret, query={"dryRun": "All"}, timeout=_QUICK)
    except KubernetesError as error:
        if error.status in (404, 409) or "being deleted" in error.message:
            raise
        # The request is forbidden or exceeds a quota. The permission check reports such problems.


def missing_permissions(
    connection: Connection, namespace: str, rules: Sequence[PermissionRule] = RUNNING
) -> list[Permission]:
    """Return the permissions that the account lacks in a namespace."""
    wanted = [permission for rule in rules for permission in rule.permissions(namespace)]
    if namespace:  # rules can only be listed for a single namespace
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }
        response = connection.request(
            "POST", f"{_REVIEWS}/selfsubjectrulesreviews", review, timeout=_QUICK
        )
        rules = (response.get("status") or {}).get("resourceRules") or ()
        wanted = [permission for permission in wanted if not is_granted(rules, permission)]
    return denied_permissions(connection, wanted)


def denied_permissions(
    connection: Connection, permissions: Sequence[Permission]
) -> list[Permission]:
    """Return the permissions that the account lacks, after one request per permission."""
    if not permissions:
        return []
    with ThreadPoolExecutor(min(_AT_ONCE, len(permissions))) as pool:
        answers = pool.map(lambda permission: is_allowed(connection, permission), permissions)
        return [
            permission
            for permission, allowed in zip(permissions, answers, strict=True)
            if not allowed
        ]


def is_allowed(connection: Connection, permission: Permission) -> bool:
    """Return whether the account has a permission."""
    resource, _, part = permission.resource.partition("/")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "verb": permission.verb,
                "group": permission.group,
                "resource": resource,
                "subresource": part,
                "namespace": permission.namespace,
                "name": permission.name,
            }
        },
    }
    response = connection.request(
        "POST", f"{_REVIEWS}/selfsubjectaccessreviews", review, timeout=_QUICK
    )
    return bool((response.get("status") or {}).get("allowed"))


def check_access(
    connection: Connection, namespace: str, rules: Sequence[PermissionRule] = RUNNING
) -> None:
    """Raise an error that names the missing permissions and the command that grants them."""
    missing = missing_permissions(connection, namespace, rules)
    if missing:
        raise missing_permissions_error(missing, account_name(connection))


def missing_permissions_error(missing: Sequence[Permission], account: str) -> KubernetesError:
    """Return the error that names the missing permissions.

    >>> one = Permission(verb="create", resource="pods", namespace="lab")
    >>> two = Permission(verb="list", resource="events", namespace="lab")
    >>> print(missing_permissions_error([one, two], "ada"))
    ada lacks 2 rights in namespace lab: create pods; list events.
      An administrator of the cluster can grant them: windlass kubernetes rights \
--namespace lab --account ada | kubectl apply -f -
    """
    if len(missing) == 1:
        explanation = not_allowed(missing[0], account)
        return KubernetesError(
            explanation.sentence, hint=explanation.remedy, status=403, reason="Forbidden"
        )
    namespace = missing[0].namespace
    kinds = [
        f"{permission.resource}.{permission.group}" if permission.group else permission.resource
        for permission in missing
    ]
    listed = "; ".join(
        f"{permission.verb} {kind}" for permission, kind in zip(missing, kinds, strict=True)
    )
    where = f" in namespace {namespace}" if namespace else ""
    return KubernetesError(
        f"{account or 'This account'} lacks {len(missing)} rights{where}: {listed}.",
        hint=grant_hint(missing, account),
        status=403,
        reason="Forbidden",
    )


def grant_hint(missing: Sequence[Permission], account: str) -> str:
    """Return a hint that contains the command to grant all missing permissions.

    >>> grant_hint([Permission(verb="list", resource="events", namespace="lab")], "ada")
    'An administrator of the cluster can grant it: windlass kubernetes rights --namespace lab \
--account ada | kubectl apply -f -'
    """
    namespace = missing[0].namespace
    return (
        f"An administrator of the cluster can grant {'it' if len(missing) == 1 else 'them'}: "
        "windlass kubernetes rights"
        f"{f' --namespace {namespace}' if namespace else ''} --account {account or 'NAME'} "
        "| kubectl apply -f -"
    )
