"""The table of permissions agrees with the docs."""

from __future__ import annotations

import re
from pathlib import Path

from windlass.kube.permission import Permission
from windlass.kube.permissions.required import RUNNING, is_granted, role_manifests, role_rules

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "kubernetes.md"


def test_the_page_has_exactly_the_permissions_that_are_checked() -> None:
    rows = re.findall(r"^\| `([a-z/]+)` \| ([a-z, ]+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(right.resource, ", ".join(right.verbs), right.why) for right in RUNNING]


def test_a_role_needs_all_permissions_of_the_table() -> None:
    wanted = [deed for right in RUNNING for deed in right.permissions("lab")]
    rules = role_rules(RUNNING)
    assert all(is_granted(rules, deed) for deed in wanted)
    for left_out in wanted:
        short = [
            {**rule, "verbs": [verb for verb in rule["verbs"] if verb != left_out.verb]}
            if rule["resources"] == [left_out.resource]
            else rule
            for rule in rules
        ]
        assert [deed for deed in wanted if not is_granted(short, deed)] == [left_out]


def test_wildcard_rules_grant_and_rules_for_single_names_do_not() -> None:
    deed = Permission(verb="create", resource="pods/portforward", namespace="lab")
    assert is_granted([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}], deed)
    assert is_granted(
        [{"verbs": ["create"], "apiGroups": [""], "resources": ["*/portforward"]}], deed
    )
    assert not is_granted([{"verbs": ["create"], "apiGroups": [""], "resources": ["pods"]}], deed)
    one = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["train"]}
    assert not is_granted([one], deed)
    assert not is_granted([{"nonResourceURLs": ["*"], "verbs": ["*"]}], deed)


def test_a_role_is_bound_to_a_user_or_a_service_account() -> None:
    _, binding = role_manifests("lab", "system:serviceaccount:ops:windlass")
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "namespace": "ops", "name": "windlass"}
    ]
    role, binding = role_manifests("lab", "ada")
    assert binding["subjects"][0]["kind"] == "User"
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "lab"
    same_role, other = role_manifests("lab", "bob")
    assert same_role == role
    assert other["metadata"] != binding["metadata"], "it would take the role from the first"
