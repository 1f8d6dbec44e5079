"""Builds the request for a new experiment."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from windlass.authoring.checks.options import (
    Problem,
    check_labels,
    check_name,
    check_project,
    check_type,
)
from windlass.authoring.prepare.exact_json import NotExact, exact_json
from windlass.model.errors import InvalidArgument, shown
from windlass.model.requests import CreateExperiment

_LONGEST = 100_000


def new_experiment(
    name: Any, project: Any, labels: Any, description: Any, config: Any, *, exist_ok: Any = False
) -> CreateExperiment:
    """Build the request for an experiment. One error lists all problems."""
    problems = [
        *check_name("name", "" if name is None else name),
        *check_project(project),
        *check_labels(labels),
        *check_type("description", description, str, "a string"),
        *check_type("exist_ok", exist_ok, bool, "True or False"),
    ]
    if isinstance(description, str) and len(description) > _LONGEST:
        flaw = f"has {len(description)} characters; at most {_LONGEST} are allowed"
        problems.append((("description",), f"description: it {flaw}"))
    plain, config_problems = read_config(config)
    problems += config_problems
    if problems:
        raise InvalidArgument.of([text for _, text in problems], where="wl.create_experiment")
    return CreateExperiment(
        key=uuid.uuid4().hex,  # idempotency key: a repeated request creates one experiment
        name=name,
        project=project or "default",
        labels=tuple(dict.fromkeys(labels)),
        description=description,
        config=plain,
        exist_ok=exist_ok,
    )


def read_config(config: Any) -> tuple[dict[str, Any], list[Problem]]:
    """Return a configuration as JSON, and any problems with it."""
    if config is None:
        return {}, []
    if not isinstance(config, Mapping):
        flaw = f"config: {shown(config)} is not a mapping"
        return {}, [(("config",), flaw)]
    try:
        plain: dict[str, Any] = exact_json(config)
    except NotExact as error:
        flaw = (
            f"config: {error}, which cannot be recorded\nUse numbers, strings, lists and mappings."
        )
        return {}, [(("config",), flaw)]
    return plain, []
