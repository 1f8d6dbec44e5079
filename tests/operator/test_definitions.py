"""Values that the definitions of TFJob and PyTorchJob refuse, so that the API server does it.

The rules of `x-kubernetes-validations` run in an implementation of CEL. No API server of the tests
has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from operator_objects import FIELDS, manifest
from windlass.model.errors import InvalidArgument
from windlass.model.job import CleanPolicy, RestartPolicy
from windlass.operator.install_crds import definitions
from windlass.operator.job_kinds import JOB_KINDS, OTHER_OPERATORS, OUR_NAMES
from windlass.operator.jobs.from_object import translate

KINDS = [kind.name for kind in JOB_KINDS]
OPERATOR_PAGE = Path(__file__).parents[2] / "docs" / "guides" / "operator.md"
QUEUE = "spec.runPolicy.schedulingPolicy.queue"
MANAGER = "spec.runPolicy.managedBy"


def schema(kind: str) -> dict[str, Any]:
    """The schema of the objects of a kind."""
    [definition] = [
        candidate for candidate in definitions() if candidate["spec"]["names"]["kind"] == kind
    ]
    validation: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return validation


def at(node: dict[str, Any], *path: str) -> dict[str, Any]:
    """The schema of a field."""
    for step in path:
        node = node["properties"][step] if "properties" in node else node["additionalProperties"]
    return node


def refusals(body: dict[str, Any]) -> list[str]:
    """The paths of the fields that the schema refuses."""
    errors = Draft7Validator(schema(body["kind"])).iter_errors(body)
    return [".".join(map(str, error.absolute_path)) for error in errors]


def with_role(kind: str, **fields: Any) -> dict[str, Any]:
    body = manifest(kind, Worker=1)
    body["spec"][FIELDS[kind]]["Worker"].update(fields)
    return body


@pytest.mark.parametrize("kind", KINDS)
def test_the_definitions_list_the_values_that_the_operator_knows(kind: str) -> None:
    policy = at(schema(kind), "spec", "runPolicy")
    assert set(at(policy, "managedBy")["enum"]) == OUR_NAMES | OTHER_OPERATORS
    assert set(at(policy, "cleanPodPolicy")["enum"]) == {
        "",
        *(policy_value.value for policy_value in CleanPolicy),
    }
    restart = at(schema(kind), "spec", FIELDS[kind], "Worker", "restartPolicy")
    assert set(restart["enum"]) == {"", *(policy_value.value for policy_value in RestartPolicy)}
    conditions = at(schema(kind), "status", "conditions")["items"]
    assert at(conditions, "status")["enum"] == ["True", "False", "Unknown"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("manager", [*sorted(OUR_NAMES | OTHER_OPERATORS)])
def test_every_known_controller_is_accepted(kind: str, manager: str) -> None:
    assert not refusals(manifest(kind, Worker=1, runPolicy={"managedBy": manager}))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("managedBy", "kueue.x-k8s.io/other-controller"),
        ("managedBy", "Kubeflow.org/training-operator"),
        ("cleanPodPolicy", "Sometimes"),
        ("backoffLimit", -1),
        ("activeDeadlineSeconds", 0),
        ("ttlSecondsAfterFinished", -1),
    ],
)
def test_an_unknown_value_of_the_run_policy_is_refused(kind: str, field: str, value: Any) -> None:
    body = manifest(kind, Worker=1, runPolicy={field: value})
    assert refusals(body) == [f"spec.runPolicy.{field}"]
    if field != "managedBy":  # another controller's object is not translated
        with pytest.raises(InvalidArgument, match=field):
            translate(body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("field", "value"), [("restartPolicy", "Sometimes"), ("replicas", -1)])
def test_an_unknown_value_of_a_role_is_refused(kind: str, field: str, value: Any) -> None:
    body = with_role(kind, **{field: value})
    assert refusals(body) == [f"spec.{FIELDS[kind]}.Worker.{field}"]
    with pytest.raises(InvalidArgument, match=field):
        translate(body)


def test_an_unknown_success_policy_is_refused() -> None:
    for value in ("", "Default", "AllWorkers"):
        body = manifest("TFJob", Worker=1, successPolicy=value)
        assert not refusals(body)
        translate(body)
    assert refusals(manifest("TFJob", Worker=1, successPolicy="Leader")) == ["spec.successPolicy"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_without_roles_is_refused(kind: str) -> None:
    body = manifest(kind, Worker=1)
    del body["spec"][FIELDS[kind]]
    assert refusals(body) == ["spec"]


def policy(**fields: Any) -> dict[str, Any]:
    return {"runPolicy": fields}


def queue(name: str) -> dict[str, Any]:
    return policy(schedulingPolicy={"queue": name})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ({}, {}, []),
        ({}, policy(), []),
        (policy(suspend=True), policy(suspend=False), []),
        ({}, policy(managedBy=""), []),
        (policy(managedBy="a"), policy(managedBy="a", suspend=True), []),
        (policy(managedBy="a"), policy(managedBy="b"), [MANAGER]),
        (policy(managedBy="a"), policy(), [MANAGER]),
        (policy(managedBy="a"), {}, [MANAGER]),
        ({}, policy(managedBy="a"), [MANAGER]),
        (policy(suspend=True), policy(managedBy="a"), [MANAGER]),
        (queue("a"), queue("a"), []),
        (policy(), queue("a"), []),
        (queue("a"), queue("b"), [QUEUE]),
    ],
)
def test_immutable_fields_cannot_change(
    kind: str, before: dict[str, Any], after: dict[str, Any], refused: list[str]
) -> None:
    old, new = (manifest(kind, Worker=1, **spec)["spec"] for spec in (before, after))
    assert [message.split()[0] for message in violations(schema(kind), old, new)] == refused


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_of_the_operator_has_the_message_of_each_rule(kind: str) -> None:
    page = OPERATOR_PAGE.read_text()
    messages = [rule["message"] for _, rule in rules(at(schema(kind), "spec"))]
    assert len(messages) == 2
    for message in messages:
        assert message in page


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (manifest("TFJob", Worker=1, Boss=1), "a TFJob has no 'Boss'"),
        (manifest("TFJob"), "spec.tfReplicaSpecs: it is empty; add at least a Worker"),
        (manifest("TFJob", Chief=2), "spec.tfReplicaSpecs: tensorflow has one chief; there are 2"),
        (manifest("TFJob", Worker=2000), "2000 replicas are too many; 1000 is the limit"),
        (manifest("TFJob", "2nd-try", Worker=1), "metadata.name: '2nd-try' must start with"),
        (
            with_role("TFJob", template={"spec": {"containers": [{"name": "tensorflow"}]}}),
            "spec.tfReplicaSpecs.Worker.template.spec.containers[0].image: it is missing",
        ),
        (
            with_role("TFJob", template={"spec": {"containers": [{"ports": 5}]}}),
            "spec.tfReplicaSpecs.Worker.template.spec.containers[0].ports: must be a list, not 5",
        ),
        (
            manifest("PyTorchJob", Worker=1, elasticPolicy={"minReplicas": 4, "maxReplicas": 2}),
            "spec.elasticPolicy.minReplicas: is 4, above maxReplicas, 2",
        ),
    ],
)
def test_the_operator_refuses_what_the_schema_accepts_with_the_message_of_the_page(
    body: dict[str, Any], message: str
) -> None:
    assert not refusals(body)
    with pytest.raises(InvalidArgument) as raised:
        translate(body)
    assert message in str(raised.value)
    assert message in OPERATOR_PAGE.read_text()


def violations(root: dict[str, Any], old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The messages of the rules that a change of a spec violates."""
    cel = pytest.importorskip("cel")  # it needs Python 3.11
    messages = []
    for path, rule in rules(at(root, "spec")):
        before, after = _value(old, path), _value(new, path)
        # A rule with `oldSelf` applies only where the field was there before and is there after.
        if before is None or after is None:
            continue
        if not cel.evaluate(rule["rule"], {"self": after, "oldSelf": before}):
            messages.append(rule["message"])
    return messages


def rules(
    node: dict[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    """Yield the rules of a schema and of its fields, each with the path of its field."""
    for rule in node.get("x-kubernetes-validations", ()):
        yield path, rule
    for name, field in node.get("properties", {}).items():
        yield from rules(field, (*path, name))


def _value(spec: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        spec = spec.get(step) if isinstance(spec, dict) else None
    return spec
