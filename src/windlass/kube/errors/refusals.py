"""Explains why a cluster refused a request, using only the response, and names a remedy.

The module recognizes messages from the API server and its admission plugins. Unknown messages are
returned unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from windlass.kube.explanation import Explanation
from windlass.kube.permission import Permission

ACCOUNT_MISSING, PRIORITY_MISSING = "ServiceAccountMissing", "PriorityClassMissing"


def refusal(
    status: int,
    reason: str,
    message: str,
    *,
    permission: Permission | None,
    account: str,
    server: str,
) -> Explanation:
    """Explain a response that has status 300 or above."""
    if status == 401:
        return Explanation(
            reason="Unauthorized",
            sentence=f"{server} rejected the login as {account or 'nobody'}: the token or "
            "certificate is wrong or has expired.",
            remedy="Log in again: wl.TokenAuthentication(token=..., server=...).login(), or the "
            "login command of your cluster's provider.",
        )
    for pattern, explanation in _REFUSALS:
        match = pattern.search(message)
        if match:
            return _with_namespace(
                explanation(match), "" if permission is None else permission.namespace
            )
    what = f" to {permission}" if permission else ""
    if status == 403:
        return Explanation(
            reason="Forbidden",
            sentence=f"The cluster does not let {account or 'us'}{what}: {_sentence(message)}",
            remedy="Ask an administrator of the cluster about this rule.",
        )
    if status == 404:
        return Explanation(
            reason="NotFound", sentence=_sentence(message or f"The object does not exist{what}")
        )
    if status == 409 and reason != "AlreadyExists":
        return Explanation(reason=reason or "Conflict", sentence=_sentence(message))
    if status == 429:
        return Explanation(
            reason="TooManyRequests",
            sentence=f"{server} is too busy{what}: {_sentence(message)}",
            remedy="Windlass tries again.",
        )
    if status >= 500:
        return Explanation(
            reason=reason or "InternalError",
            sentence=f"{server} failed{what} ({status}): {_sentence(message or 'no details')}",
            remedy="Ask an administrator to check the log of the cluster.",
        )
    return Explanation(
        reason=reason or str(status),
        sentence=f"The cluster refused{what} ({status}): {_sentence(message)}",
        remedy="",
    )


def not_allowed(permission: Permission, account: str) -> Explanation:
    """Explain that an account lacks a permission, and name the command that grants it.

    >>> create_pods = Permission(verb="create", resource="pods", namespace="lab")
    >>> explanation = not_allowed(create_pods, "ada")
    >>> print(explanation.sentence, explanation.remedy, sep="\\n")
    ada may not create pods in namespace lab.
    An administrator of the cluster can grant it:
      kubectl -n lab create role windlass-create-pods --verb=create --resource=pods
      kubectl -n lab create rolebinding windlass-create-pods --role=windlass-create-pods --user=ada
    To grant all permissions that Windlass needs: windlass kubernetes rights
    """
    kind = f"{permission.resource}.{permission.group}" if permission.group else permission.resource
    name = f"windlass-{permission.verb}-{re.sub(r'[^a-z0-9]+', '-', permission.resource)}"
    where = (
        f"kubectl -n {permission.namespace} create" if permission.namespace else "kubectl create"
    )
    role = "role" if permission.namespace else "clusterrole"
    lines = [
        "An administrator of the cluster can grant it:",
        f"  {where} {role} {name} --verb={permission.verb} --resource={kind}",
        f"  {where} {role}binding {name} --{role}={name} {_subject(account)}",
    ]
    if permission.namespace:
        lines.append("To grant all permissions that Windlass needs: windlass kubernetes rights")
    return Explanation(
        reason="Forbidden",
        sentence=f"{account or 'This account'} may not {permission}.",
        remedy="\n".join(lines),
    )


def _subject(account: str) -> str:
    """Return the kubectl option that names the account in a role binding.

    >>> _subject("system:serviceaccount:lab:trainer")
    '--serviceaccount=lab:trainer'
    """
    prefix = "system:serviceaccount:"
    if account.startswith(prefix):
        return f"--serviceaccount={account.removeprefix(prefix)}"
    return f"--user={account or 'NAME'}"


def _with_namespace(explanation: Explanation, namespace: str) -> Explanation:
    """Return the explanation, adapting its commands to the refused object's namespace."""
    if not namespace:
        return explanation
    remedy = explanation.remedy.replace("kubectl describe", f"kubectl -n {namespace} describe")
    return msgspec.structs.replace(explanation, remedy=remedy)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


Explainer = Callable[[re.Match[str]], Explanation]


def _cannot(match: re.Match[str]) -> Explanation:
    permission = Permission(
        verb=match["verb"],
        resource=match["resource"],
        group=match["group"] or "",
        namespace=match["namespace"] or "",
    )
    return not_allowed(permission, match["account"])


def _quota(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason="QuotaExceeded",
        sentence=f"The quota {match['quota']} of the namespace is exceeded: requested "
        f"{match['asked']}, in use {match['used']}, the limit {match['limit'].rstrip('.')}.",
        remedy="Request less, stop jobs that you no longer need, or ask for a higher "
        f"quota: kubectl describe resourcequota {match['quota']}",
    )


def _must_specify(match: re.Match[str]) -> Explanation:
    missing = match["missing"].strip().rstrip(".")
    options = [name for sign, name in (("cpu", "cpus="), ("memory", "memory=")) if sign in missing]
    return Explanation(
        reason="QuotaNeedsResources",
        sentence=f"The quota {match['quota']} of the namespace accepts only pods that "
        f"request {missing}.",
        remedy=f"Set {' and '.join(options) or 'by pod_patch='} of wl.Kubernetes.",
    )


def _account_missing(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason=ACCOUNT_MISSING,
        sentence=f"There is no service account {match['name']} in namespace {match['namespace']}.",
        remedy="Name an existing account (service_account= of wl.Kubernetes), or create "
        f"it: kubectl -n {match['namespace']} create serviceaccount {match['name']}",
    )


def _priority_missing(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason=PRIORITY_MISSING,
        sentence=f"There is no priority class {match['name']} in the cluster.",
        remedy="Name an existing class (priority_class= of wl.Kubernetes): kubectl get "
        "priorityclasses",
    )


def _terminating(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason="NamespaceTerminating",
        sentence=f"The namespace {match['name']} is being deleted.",
        remedy="Choose another (namespace= of wl.Kubernetes), or wait and create it again.",
    )


def _namespace_missing(match: re.Match[str]) -> Explanation:
    name = match["name"]
    return Explanation(
        reason="NamespaceMissing",
        sentence=f"There is no namespace {name} in the cluster.",
        remedy=f"Choose another (namespace= of wl.Kubernetes), or create it: kubectl create "
        f"namespace {name}",
    )


def _limits(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason="LimitRange",
        sentence="The request is outside of the limits of the namespace: "
        f"{_sentence(match['what'])}",
        remedy="Request an amount within the limits (cpus=, memory= of wl.Kubernetes). To "
        "see them: kubectl describe limitrange",
    )


def _security(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason="PodSecurity",
        sentence=f"The namespace accepts only pods of the security level {match['level']}: "
        f"{_sentence(match['what'])}",
        remedy="Add the required settings with pod_patch= of wl.Kubernetes "
        "(securityContext), or choose another namespace.",
    )


def _webhook(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason="AdmissionDenied",
        sentence=f"An admission rule of this cluster ({match['name']}) refused the "
        f"request: {_sentence(match['what'])}",
        remedy="Ask an administrator of the cluster about this rule.",
    )


def _webhook_down(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason="AdmissionUnavailable",
        sentence=f"An admission webhook of this cluster ({match['name']}) does not "
        f"answer: {_sentence(match['what'])}",
        remedy="Windlass tries again. Report this to an administrator of the cluster.",
    )


def _account_new(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason="ServiceAccountNotReady",
        sentence=f"The service account {match['name']} is new and has no token yet.",
        remedy="Windlass tries again shortly.",
    )


# The pattern for webhooks comes first, because a webhook's message may contain any other text.
_REFUSALS: tuple[tuple[re.Pattern[str], Explainer], ...] = (
    (
        re.compile(
            r'admission webhook "(?P<name>[^"]+)" denied the request:? ?(?P<what>.*)', re.DOTALL
        ),
        _webhook,
    ),
    (
        re.compile(r'failed calling webhook "(?P<name>[^"]+)": (?P<what>.+)', re.DOTALL),
        _webhook_down,
    ),
    (
        re.compile(
            r'User "(?P<account>[^"]+)" cannot (?P<verb>\w+) '
            r'(?:resource|path) "(?P<resource>[^"]+)"'
            r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]+)")?'
        ),
        _cannot,
    ),
    (
        re.compile(
            r"exceeded quota: (?P<quota>[^,]+), requested: (?P<asked>.+?), used: (?P<used>.+?), "
            r"limited: (?P<limit>.+)"
        ),
        _quota,
    ),
    (re.compile(r"failed quota: (?P<quota>[^:]+): must specify (?P<missing>.+)"), _must_specify),
    (
        re.compile(
            r"error looking up service account (?P<namespace>[^/]+)/(?P<name>[^:]+): .*not found"
        ),
        _account_missing,
    ),
    (re.compile(r"no PriorityClass with name (?P<name>\S+) was found"), _priority_missing),
    (
        re.compile(r"in namespace (?P<name>\S+) because it is being terminated"),
        _terminating,
    ),
    (re.compile(r'violates PodSecurity "(?P<level>[^":]+)[^"]*": (?P<what>.+)'), _security),
    (
        re.compile(
            r"is forbidden: (?P<what>\[?(?:minimum|maximum|cpu max|memory max).+ "
            r"(?:per|usage|limit|ratio).+)"
        ),
        _limits,
    ),
    (re.compile(r'No API token found for service account "(?P<name>[^"]+)"'), _account_new),
    (re.compile(r'^namespaces "(?P<name>[^"]+)" not found'), _namespace_missing),
)
