"""Specs that the local runtime refuses before anything is stored, with the reason."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from windlass.machine.capacity import read_capacity
from windlass.machine.unsupported import find_unsupported
from windlass.model.job import Code, JobSpec, ProcessCall, Python, Role, Volume


def spec(**fields: Any) -> JobSpec:
    return JobSpec(roles=(Role(executable=ProcessCall(argv=("true",))),), **fields)


def test_a_plain_spec_has_no_problems() -> None:
    assert find_unsupported(spec()) == []
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert find_unsupported(spec(python=Python(executable=sys.executable, version=version))) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"backend": "kubernetes"}, "'local' jobs only"),
        ({"python": Python(executable="/no/such/python")}, "does not exist"),
        ({"python": Python(executable=sys.executable, version="2.7")}, "not 2.7"),
        ({"python": Python(version="2.7")}, "needs Python 2.7"),
        ({"python": Python(extra_paths=("lib",))}, "absolute"),
        ({"volumes": (Volume(target="/data", source="/"),)}, "write 'data'"),
        ({"volumes": (Volume(target="../../data", source="/"),)}, "directly above it"),
        ({"volumes": (Volume(target="../outputs", source="/"),)}, "a name that is in use"),
        ({"volumes": (Volume(target="data", source="here"),)}, "must be an absolute path"),
        ({"volumes": (Volume(target="data", source="/no/such/place"),)}, "does not exist"),
        ({"code": Code(workdir="../..")}, "not inside"),
        ({"code": Code(workdir="/etc")}, "not inside"),
        ({"code": Code(import_paths=("src", "../lib"))}, "not inside"),
    ],
)
def test_an_unsupported_option_is_reported(fields: dict[str, Any], message: str) -> None:
    [problem] = find_unsupported(spec(**fields))
    assert message in problem


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    volumes = (Volume(target="..", source=str(tmp_path)), Volume(target="d", source="x"))
    assert len(find_unsupported(spec(backend="ray", volumes=volumes))) == 3


def test_the_machine_has_capacity() -> None:
    capacity = read_capacity({})
    assert capacity.cpus > 0 and capacity.memory > 0
