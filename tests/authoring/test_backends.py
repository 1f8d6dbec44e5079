"""The table of backends agrees with the executors of `wl` and the runtimes of the server."""

from __future__ import annotations

from dataclasses import fields

import pytest

from windlass.authoring.checks.options import OF_EXECUTOR
from windlass.authoring.prepare.options import Options, backend_of_executor
from windlass.authoring.public.executors import EXECUTORS
from windlass.model.backends import BACKENDS, LOCAL
from windlass.runtimes.by_backend import REMOTE_BACKENDS


def test_every_backend_has_an_executor_and_a_runtime() -> None:
    assert set(EXECUTORS) == {LOCAL, *REMOTE_BACKENDS} == set(BACKENDS)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_table_lists_the_options_of_the_executor(backend: str) -> None:
    kind, capabilities = EXECUTORS[backend], BACKENDS[backend]
    assert (kind.__name__, kind.backend) == (capabilities.executor, backend)
    # The volumes of an executor are also an option of the job itself.
    own = {field.name for field in fields(kind)} - {*OF_EXECUTOR, "volumes"}
    assert own == set(capabilities.executor_options)
    assert backend_of_executor(kind()) == backend


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_refuses_only_options_that_exist(backend: str) -> None:
    refused = set(BACKENDS[backend].refused_options)
    assert refused <= {field.name for field in fields(Options)}
    assert not refused & set(BACKENDS[backend].executor_options)
