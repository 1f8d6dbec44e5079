"""What refusals of clusters mean; most texts are of the tests on a real one."""

from __future__ import annotations

import json

import pytest

from windlass.kube.faults import raised_from_answer


def refused(status: int, message: str, reason: str = "Forbidden") -> str:
    body = json.dumps({"kind": "Status", "message": message, "reason": reason})
    return str(
        raised_from_answer(
            status, body, method="POST", path="/api/v1/namespaces/lab/pods",
            account="ada", server="https://lab:6443",
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("status", "message", "said"),
    [
        (
            403,
            'pods "x" is forbidden: violates PodSecurity "restricted:latest": '
            'allowPrivilegeEscalation != false (container "main" must set '
            "securityContext.allowPrivilegeEscalation=false)",
            "takes only pods of the security level restricted: allowPrivilegeEscalation",
        ),
        (
            403,
            'pods "x" is forbidden: minimum memory usage per Container is 1Gi, but request is 1Mi',
            "The namespace has limits for every pod: minimum memory usage per Container is 1Gi",
        ),
        (
            400,
            'admission webhook "policy.lab.example" denied the request: label team is missing',
            "A rule of this cluster (policy.lab.example) refused it: label team is missing.",
        ),
        (
            500,
            'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: '
            'Post "https://kueue-webhook-service": no endpoints available',
            "(mpod.kb.io) does not answer",
        ),
        (
            500,
            'No API token found for service account "default", retry after the token is '
            "automatically created and added to the service account",
            "The service account default is so new that it has no token yet.",
        ),
        (
            403,
            'admission webhook "quota.lab.example" denied the request: exceeded quota: team, '
            "requested: pods=1, used: pods=1, limited: pods=1",
            "A rule of this cluster (quota.lab.example) refused it: exceeded quota: team",
        ),
        (403, "computer says no", "does not let ada to create pods in namespace lab: computer"),
        (429, "the server has received too many requests", "is too busy to create pods"),
        (500, "etcdserver: request timed out", "failed to create pods in namespace lab (500)"),
        (422, "Pod is invalid: spec.containers: Required value", "refused to create pods"),
    ],
)
def test_a_refusal_is_told_in_a_users_words(status: int, message: str, said: str) -> None:
    assert said in refused(status, message, reason="")


def test_what_no_kubernetes_said_is_told_in_bounds() -> None:
    page = "<html>" + "proxy " * 10_000
    error = raised_from_answer(
        502, page.encode(), method="GET", path="/version", account="", server="https://lab:6443"
    )
    assert error.status == 502
    assert len(str(error)) < 3000
