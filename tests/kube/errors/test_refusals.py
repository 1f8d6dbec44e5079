"""The meaning of refusals of clusters. Most texts are from tests on a real cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.kube.errors.api_errors import InvalidObject, raised_from_answer
from windlass.model.errors import KubernetesError


def answer(status: int, message: str, **fields: Any) -> KubernetesError:
    body = json.dumps({"kind": "Status", "message": message, **fields})
    return raised_from_answer(
        status, body, method="POST", path="/api/v1/namespaces/lab/pods",
        account="ada", server="https://lab:6443",
    )  # fmt: skip


def refused(status: int, message: str, reason: str = "Forbidden") -> str:
    return str(answer(status, message, reason=reason))


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (
            403,
            'pods "x" is forbidden: violates PodSecurity "restricted:latest": '
            'allowPrivilegeEscalation != false (container "main" must set '
            "securityContext.allowPrivilegeEscalation=false)",
            "accepts only pods of the security level restricted: allowPrivilegeEscalation",
        ),
        (
            403,
            'pods "x" is forbidden: minimum memory usage per Container is 1Gi, but request is 1Mi',
            "The request is outside of the limits of the namespace: minimum memory usage "
            "per Container is 1Gi",
        ),
        (
            400,
            'admission webhook "policy.lab.example" denied the request: label team is missing',
            "An admission rule of this cluster (policy.lab.example) refused the request: "
            "label team is missing.",
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
            "The service account default is new and has no token yet.",
        ),
        (
            403,
            'admission webhook "quota.lab.example" denied the request: exceeded quota: team, '
            "requested: pods=1, used: pods=1, limited: pods=1",
            "An admission rule of this cluster (quota.lab.example) refused the request: "
            "exceeded quota: team",
        ),
        (403, "computer says no", "does not let ada to create pods in namespace lab: computer"),
        (429, "the server has received too many requests", "is too busy to create pods"),
        (500, "etcdserver: request timed out", "failed to create pods in namespace lab (500)"),
        (422, "Pod is invalid: spec.containers: Required value", "refused to create pods"),
    ],
)
def test_a_refusal_is_explained_in_terms_of_the_user(
    status: int, message: str, expected: str
) -> None:
    assert expected in refused(status, message, reason="")


def test_a_response_of_a_foreign_server_is_shortened() -> None:
    page = "<html>" + "proxy " * 10_000
    error = raised_from_answer(
        502, page.encode(), method="GET", path="/version", account="", server="https://lab:6443"
    )
    assert error.status == 502
    assert len(str(error)) < 3000


def test_invalid_fields_are_reported_field_by_field() -> None:
    causes = [
        {"field": "spec.containers[1].name", "message": 'Duplicate value: "a"'},
        {"field": "metadata.labels", "message": "Invalid value"},
    ]
    message = 'Pod "x" is invalid: [spec.containers[1].name: ..., metadata.labels: ...]'
    error = answer(422, message, reason="Invalid", details={"kind": "Pod", "causes": causes})
    assert isinstance(error, InvalidObject)
    assert (error.kind, error.status, error.reason) == ("Pod", 422, "Invalid")
    assert [str(fault) for fault in error.faults] == [
        'spec.containers[1].name: Duplicate value: "a"', "metadata.labels: Invalid value",
    ]  # fmt: skip


def test_an_object_that_the_api_cannot_read_is_invalid() -> None:
    what = "v1.PodSpec.TerminationGracePeriodSeconds: readUint64: unexpected character"
    message = f'Pod in version "v1" cannot be handled as a Pod: {what}'
    error = answer(400, message, reason="BadRequest")
    assert isinstance(error, InvalidObject)
    assert [str(fault) for fault in error.faults] == [what]


@pytest.mark.parametrize(
    ("status", "message", "body"),
    [
        (
            422,
            'admission webhook "policy.lab.example" denied the request: spec.priority: no',
            {"kind": "Pod", "causes": [{"field": "spec.priority", "message": "no"}]},
        ),
        (
            422,
            "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no",
            {"kind": "pods", "causes": [{"message": "no"}]},
        ),
        (422, 'Pod "x" is invalid', {"kind": "Pod"}),
        (422, "computer says no", None),
        (403, 'pods "x" is forbidden: exceeded quota: q', {"kind": "pods"}),
        (400, "the object provided is unrecognized", None),
    ],
)
def test_a_temporary_refusal_is_not_invalid(
    status: int, message: str, body: dict[str, Any] | None
) -> None:
    reason = {400: "BadRequest", 403: "Forbidden", 422: "Invalid"}[status]
    assert not isinstance(answer(status, message, reason=reason, details=body), InvalidObject)
