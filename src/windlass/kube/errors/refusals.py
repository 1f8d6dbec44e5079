"""Explains refusals of a cluster with a remedy, from the response alone.

The module recognizes the messages of the API server and its admission plugins; other messages are
reported unchanged.
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
    """Return the explanation of a response with status 300 and above."""
    if status == 401:
        return Explanation(
            reason="Unauthorized",
            sentence=f"{server} does not accept who we say we are ({account or 'nobody'}): the "
            "token or certificate is wrong, or it has expired.",
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
            remedy="Whoever runs the cluster can say which rule that is.",
        )
    if status == 404:
        return Explanation(
            reason="NotFound", sentence=_sentence(message or f"Nothing is there{what}")
        )
    if status == 409 and reason != "AlreadyExists":
        return Explanation(reason=reason or "Conflict", sentence=_sentence(message))
    if status == 429:
        return Explanation(
            reason="TooManyRequests",
            sentence=f"{server} is too busy{what}: {_sentence(message)}",
            remedy="It is tried again by itself.",
        )
    if status >= 500:
        return Explanation(
            reason=reason or "InternalError",
            sentence=f"{server} failed{what} ({status}): {_sentence(message or 'it says no more')}",
            remedy="The cluster's own log says more; whoever runs it can look.",
        )
    return Explanation(
        reason=reason or str(status),
        sentence=f"The cluster refused{what} ({status}): {_sentence(message)}",
        remedy="",
    )


def not_allowed(permission: Permission, account: str) -> Explanation:
    """An account lacks a right, with the command that grants it.

    >>> told = not_allowed(Permission(verb="create", resource="pods", namespace="lab"), "ada")
    >>> print(told.sentence, told.remedy, sep="\\n")
    ada may not create pods in namespace lab.
    Somebody who may can grant it:
      kubectl -n lab create role windlass-create-pods --verb=create --resource=pods
      kubectl -n lab create rolebinding windlass-create-pods --role=windlass-create-pods --user=ada
    All that Windlass needs, at once: windlass kubernetes rights
    """
    kind = f"{permission.resource}.{permission.group}" if permission.group else permission.resource
    name = f"windlass-{permission.verb}-{re.sub(r'[^a-z0-9]+', '-', permission.resource)}"
    where = (
        f"kubectl -n {permission.namespace} create" if permission.namespace else "kubectl create"
    )
    role = "role" if permission.namespace else "clusterrole"
    lines = [
        "Somebody who may can grant it:",
        f"  {where} {role} {name} --verb={permission.verb} --resource={kind}",
        f"  {where} {role}binding {name} --{role}={name} {_subject(account)}",
    ]
    if permission.namespace:
        lines.append("All that Windlass needs, at once: windlass kubernetes rights")
    return Explanation(
        reason="Forbidden",
        sentence=f"{account or 'This account'} may not {permission}.",
        remedy="\n".join(lines),
    )


def _subject(account: str) -> str:
    """Whom a binding is for.

    >>> _subject("system:serviceaccount:lab:trainer")
    '--serviceaccount=lab:trainer'
    """
    prefix = "system:serviceaccount:"
    if account.startswith(prefix):
        return f"--serviceaccount={account.removeprefix(prefix)}"
    return f"--user={account or 'NAME'}"


def _with_namespace(explanation: Explanation, namespace: str) -> Explanation:
    """The same, with commands that look in the namespace of what was refused."""
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
        sentence=f"The quota {match['quota']} of the namespace has no room: asked for is "
        f"{match['asked']}, in use {match['used']}, the limit {match['limit'].rstrip('.')}.",
        remedy="Ask for less, end what is not needed any more, or have the quota raised: "
        f"kubectl describe resourcequota {match['quota']}",
    )


def _must_specify(match: re.Match[str]) -> Explanation:
    missing = match["missing"].strip().rstrip(".")
    options = [name for sign, name in (("cpu", "cpus="), ("memory", "memory=")) if sign in missing]
    return Explanation(
        reason="QuotaNeedsResources",
        sentence=f"The quota {match['quota']} of the namespace takes only pods that say {missing}.",
        remedy=f"Say how much: {' and '.join(options) or 'by pod_patch='} of wl.Kubernetes.",
    )


def _account_missing(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason=ACCOUNT_MISSING,
        sentence=f"There is no service account {match['name']} in namespace {match['namespace']}.",
        remedy="Name one that there is (service_account= of wl.Kubernetes), or make it: "
        f"kubectl -n {match['namespace']} create serviceaccount {match['name']}",
    )


def _priority_missing(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason=PRIORITY_MISSING,
        sentence=f"There is no priority class {match['name']} in the cluster.",
        remedy="Name one that there is (priority_class= of wl.Kubernetes): kubectl get "
        "priorityclasses",
    )


def _terminating(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason="NamespaceTerminating",
        sentence=f"The namespace {match['name']} is being deleted.",
        remedy="Choose another (namespace= of wl.Kubernetes), or wait and make it anew.",
    )


def _namespace_missing(match: re.Match[str]) -> Explanation:
    name = match["name"]
    return Explanation(
        reason="NamespaceMissing",
        sentence=f"There is no namespace {name} in the cluster.",
        remedy=f"Choose another (namespace= of wl.Kubernetes), or make it: kubectl create "
        f"namespace {name}",
    )


def _limits(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason="LimitRange",
        sentence=f"The namespace has limits for every pod: {_sentence(match['what'])}",
        remedy="Ask for an amount within them (cpus=, memory= of wl.Kubernetes); which they are: "
        "kubectl describe limitrange",
    )


def _security(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason="PodSecurity",
        sentence=f"The namespace takes only pods of the security level {match['level']}: "
        f"{_sentence(match['what'])}",
        remedy="Lay what it asks for over the pod: pod_patch= of wl.Kubernetes with a "
        "securityContext, or choose another namespace.",
    )


def _webhook(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason="AdmissionDenied",
        sentence=f"A rule of this cluster ({match['name']}) refused it: {_sentence(match['what'])}",
        remedy="Whoever runs the cluster can say what it asks for.",
    )


def _webhook_down(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason="AdmissionUnavailable",
        sentence=f"A part of this cluster that checks what is created ({match['name']}) does not "
        f"answer: {_sentence(match['what'])}",
        remedy="It is tried again; whoever runs the cluster should know.",
    )


def _account_new(match: re.Match[str]) -> Explanation:
    return Explanation(
        reason="ServiceAccountNotReady",
        sentence=f"The service account {match['name']} is so new that it has no token yet.",
        remedy="It is tried again; a moment is enough.",
    )


# What a webhook says comes first: it may quote any of the others.
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
