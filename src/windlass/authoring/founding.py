"""New experiments: what is asked for, checked."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from windlass.authoring.checks import (
    Problem,
    check_labels,
    check_name,
    check_project,
    check_type,
)
from windlass.authoring.recording import NotExact, exact_json
from windlass.model.errors import InvalidArgument, shown
from windlass.model.wire import CreateExperiment

_LONGEST = 100_000


def new_experiment(
    name: Any, project: Any, labels: Any, description: Any, config: Any, *, exist_ok: Any = False
) -> CreateExperiment:
    """The request for an experiment; all that is wrong with it is told at once."""
    problems = [
        *check_name("name", "" if name is None else name),
        *check_project(project),
        *check_labels(labels),
        *check_type("description", description, str, "a text"),
        *check_type("exist_ok", exist_ok, bool, "True or False"),
    ]
    if isinstance(description, str) and len(description) > _LONGEST:
        flaw = f"has {len(description)} characters; at most {_LONGEST} are kept"
        problems.append((("description",), f"description: it {flaw}"))
    plain, found = config_of(config)
    problems += found
    if problems:
        raise InvalidArgument.of([text for _, text in problems], where="wl.create_experiment")
    return CreateExperiment(
        key=uuid.uuid4().hex,  # a request that is sent twice makes one
        name=name,
        project=project or "default",
        labels=tuple(dict.fromkeys(labels)),
        description=description,
        config=plain,
        exist_ok=exist_ok,
    )


def config_of(config: Any) -> tuple[dict[str, Any], list[Problem]]:
    """A configuration as it is kept, and what is wrong with it."""
    if config is None:
        return {}, []
    if not isinstance(config, Mapping):
        flaw = f"config: {shown(config)} is no mapping"
        return {}, [(("config",), flaw)]
    try:
        plain: dict[str, Any] = exact_json(config)
    except NotExact as error:
        flaw = f"config: {error}, which cannot be recorded\nWrite numbers, texts, lists, mappings."
        return {}, [(("config",), flaw)]
    return plain, []
