from __future__ import annotations

import argparse
import dataclasses
import enum
import json
import types
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.packaging.params import describe_params


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Config:
    lr: float
    layers: tuple[int, ...]


class Plain:
    def __init__(self, lr: float, data: object) -> None:
        self.lr = lr
        self.data = data


class Model:
    def __init__(self) -> None:
        self.training = True

    def __repr__(self) -> str:
        return "Model(layers=3)"


class Point(NamedTuple):
    lr: float
    data: str


class Settings(msgspec.Struct):
    lr: float
    data: str


class Huge: ...


class Bad:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "described"),
    [
        (True, True),
        (None, None),
        (3, 3),
        (2**53 + 2, str(2**53 + 2)),
        (0.5, 0.5),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ("text", "text"),
        ("\ud800", "?"),
        ([1, (2, 3)], [1, [2, 3]]),
        ({"a": {"b": 1}, 2: 3}, {"a": {"b": 1}, "2": 3}),
        ({3, 1}, [1, 3]),
        (list(range(51)), "list of 51"),
        (Config(0.1, (1, 2)), {"lr": 0.1, "layers": [1, 2]}),
        (Color.RED, "Color.RED"),
        (Level.HIGH, "Level.HIGH"),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.float64("nan"), "nan"),
        (np.zeros((1000, 10)), "ndarray float64 (1000, 10)"),
        (np.array(1.5), 1.5),
        (Path("/x"), "/x"),
        (b"x" * 1000, "b'" + "x" * 197 + "…"),
        (Bad(), "<Bad>"),
        (Huge, "an integer of 16610 bits"),
    ],
)
def test_an_argument_is_recorded_as_readable_json(value: object, described: Any) -> None:
    param = 10**5000 if value is Huge else value  # pytest cannot print it
    assert describe_params({"x": param}) == {"x": described}


@pytest.mark.finding("U20")
@pytest.mark.parametrize(
    "config",
    [
        argparse.Namespace(lr=0.1, data=Path("d"), _private=print),
        types.SimpleNamespace(lr=0.1, data="d"),
        Point(lr=0.1, data="d"),
        Settings(lr=0.1, data="d"),
        Plain(lr=0.1, data="d"),
    ],
    ids=lambda config: type(config).__name__,
)
def test_a_configuration_object_is_recorded_as_a_dict(config: object) -> None:
    described = {"lr": 0.1, "data": "d"}
    assert describe_params({"x": config}) == {"x": described}
    nested = argparse.Namespace(inner=[config])
    assert describe_params({"x": nested}) == {"x": {"inner": [described]}}


def test_an_object_with_other_values_is_recorded_by_its_representation() -> None:
    for value in (print, Plain, Plain(lr=0.1, data=print), json, Model()):
        assert describe_params({"x": value}) == {"x": repr(value)[:200]}


def test_depth_is_limited_and_cycles_end() -> None:
    around: list[object] = []
    around.append(around)
    json.dumps(describe_params({"x": around}))


@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.integers()
            | st.floats()
            | st.text()
            | st.binary()
            | st.none()
            | st.complex_numbers(),
            lambda inner: st.lists(inner) | st.dictionaries(st.integers() | st.text(), inner),
            max_leaves=20,
        ),
    )
)
def test_any_value_becomes_strict_json(arguments: dict[str, object]) -> None:
    described = describe_params(arguments)
    json.dumps(described, allow_nan=False).encode()
    assert len(described) <= len(arguments)


@pytest.mark.finding("A15")
def test_the_record_of_parameters_is_bounded() -> None:
    nested = {str(n): ["x" * 200] * 50 for n in range(50)}
    many = {f"p{n}": "\x01" * 2000 for n in range(100)}
    described = describe_params({"nested": nested, "lr": 0.1, **many})
    assert described["nested"] == "dict of 50"
    assert described["lr"] == 0.1
    assert len(json.dumps(described)) < 300_000
