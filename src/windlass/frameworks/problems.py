"""Checks a job's roles against its framework's rules."""

from __future__ import annotations

import difflib

from windlass.frameworks.framework import Framework
from windlass.frameworks.registry import find_framework
from windlass.model.errors import InvalidArgument, shown
from windlass.model.job import JobSpec, SuccessPolicy

_MOST_REPLICAS = 10_000


def find_framework_problems(spec: JobSpec) -> list[str]:
    """Return the problems with a job's roles, one sentence per problem.

    >>> from windlass.model.job import ProcessCall, Role
    >>> role = Role(executable=ProcessCall(argv=("true",)), name="chef", replicas=2)
    >>> find_framework_problems(JobSpec(roles=(role,), framework="tensorflow"))
    ["tensorflow has no role 'chef'; did you mean 'chief'?"]
    """
    try:
        framework = find_framework(spec.framework)
    except InvalidArgument as error:
        return [error.message]
    problems: list[str] = []
    sizes = {role.name: role.replicas for role in spec.roles}
    if len(sizes) < len(spec.roles):
        problems.append("two roles have the same name")
    if not any(sizes.values()):
        problems.append("no role has a replica; at least one role needs a replica")
    if sum(sizes.values()) > _MOST_REPLICAS:
        problems.append(
            f"there are {sum(sizes.values())} replicas; a job has at most {_MOST_REPLICAS}"
        )
    for role in spec.roles:
        is_guest = framework.takes_services and role.service
        if framework.roles and role.name not in framework.roles and not is_guest:
            problems.append(_unknown_role(framework, role.name))
        elif role.name in framework.alone and role.replicas > 1:
            problems.append(f"{framework.name} has one {role.name}; there are {role.replicas}")
    for rivals in framework.rivals:
        both = [name for name in rivals if sizes.get(name)]
        if len(both) > 1:
            problems.append(
                f"a job may have a {' or a '.join(both)}, not both: each leads the others"
            )
    is_of_workers = spec.framework == "tensorflow" and sizes.get("worker")
    if spec.success_policy is SuccessPolicy.ALL_WORKERS and not is_of_workers:
        problems.append(
            'success_policy "AllWorkers" is for framework "tensorflow" with workers; '
            "every other job succeeds when all its replicas have succeeded"
        )
    return problems


def _unknown_role(framework: Framework, name: str) -> str:
    near = difflib.get_close_matches(name, framework.roles, n=1, cutoff=0.5)
    roles = ", ".join(framework.roles)
    others = " (and any role with service=True)" if framework.takes_services else ""
    guess = f"did you mean {near[0]!r}?" if near else f"its roles are: {roles}{others}"
    return f"{framework.name} has no role {shown(name)}; {guess}"
