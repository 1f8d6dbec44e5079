"""Every value of a wrong type gives one readable error, never a crash."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import windlass as wl
from windlass.authoring.checks.command_line import command_line, read_params
from windlass.authoring.checks.job import ROLE, WHOLE, check_job


class Speechless:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Choice(str, enum.Enum):
    ADAM = "adam"


def _nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(depth):
        inner = {"a": inner}
    return inner


_ENDLESS: dict[str, Any] = {}
_ENDLESS["a"] = _ENDLESS["b"] = _ENDLESS

ODD = {
    "a speechless object": Speechless(),
    "a speechless value": {"a": Speechless()},
    "a number without a float": 10**400,
    "a number that is not written out": -(10**5000),
    "such a number inside": {"a": [10**5000]},
    "a value inside itself": _ENDLESS,
    "deep nesting": _nested(5000),
    "an enormous text": "x" * 1_000_000,
    "half a character": "\ud800",
    "a NUL": "a\0b",
    "an array": np.arange(3),
    "nan": math.nan,
    "names that are none": {(1, 2): 3, None: 10**5000},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)


def refusals(use: Callable[[Any], object]) -> Iterator[str]:
    """Return the error for each invalid value."""
    for kind, value in ODD.items():
        try:
            use(value)
        except wl.InvalidArgument as refused:
            yield str(refused)
        else:
            raise AssertionError(f"{kind} is not refused")


@pytest.mark.parametrize("name", [*ROLE, *WHOLE])
def test_every_field_refuses_every_invalid_value_briefly(name: str) -> None:
    script = wl.PythonScript("train.py")
    for refusal in refusals(lambda odd: check_job(wl.Job(**{"executable": script, name: odd}))):
        assert name in refusal
        assert len(refusal) < 2000


@pytest.mark.parametrize(
    "make",
    [
        wl.PythonScript,
        wl.PythonModule,
        wl.PythonFunction,
        wl.Command,
        lambda value: wl.Command(["echo", value]),
    ],
)
def test_every_executable_refuses_every_invalid_value_briefly(make: Any) -> None:
    for refusal in refusals(lambda odd: check_job(wl.Job(make(odd)))):
        assert "executable" in refusal


@pytest.mark.parametrize("name", ["cpus", "memory", "accelerator"])
def test_an_executor_refuses_every_invalid_value_briefly(name: str) -> None:
    command = wl.Command(["true"])
    for refusal in refusals(
        lambda odd: check_job(wl.Job(command, executor=wl.Local(**{name: odd})))
    ):
        assert name in refusal


@pytest.mark.parametrize("name", ["replicas", "framework", "timeout", "env"])
def test_a_decorated_function_refuses_every_invalid_value_briefly(name: str) -> None:
    for refusal in refusals(lambda odd: wl.run(**{name: odd})):
        assert name in refusal


def test_only_the_first_of_thousands_of_problems_are_reported() -> None:
    many = {f"K{number}": number for number in range(10_000)}
    with pytest.raises(wl.InvalidArgument) as refused:
        check_job(wl.Job(wl.Command(["true"]), env=many))  # type: ignore[arg-type]
    lines = str(refused.value).splitlines()
    assert lines[0] == "wl.Job: 10000 problems:"
    assert (len(lines), lines[-1]) == (102, "  and 9900 more")


def test_values_no_program_can_receive_are_refused_before_submission() -> None:
    job = wl.Job(
        wl.Command(["true"]),
        args=["x"] * 10_000,
        env={"LONG": "x" * 200_000},
    )
    with pytest.raises(wl.InvalidArgument) as refused:
        check_job(job)
    assert "args: they make 10000 words; a command line has at most 9000" in str(refused.value)
    assert "env: LONG has more than 130560 bytes" in str(refused.value)
    roles = {f"role-{number}": wl.Job(wl.Command(["true"])) for number in range(65)}
    with pytest.raises(wl.InvalidArgument, match="there are 65 roles; a job has at most 64"):
        wl.JobGroup(roles)


def test_a_number_of_thousands_of_digits_on_a_command_line_is_a_text() -> None:
    digits = "9" * 5000
    assert read_params(["--id", digits, digits]) == {"id": digits, "args": [digits]}


def test_an_enum_member_is_passed_as_its_value() -> None:
    assert command_line({"optimizer": Choice.ADAM}) == ["--optimizer=adam"]
    assert command_line([Choice.ADAM]) == ["adam"]
