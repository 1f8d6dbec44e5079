"""Search spaces, and the errors of invalid ones."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

import windlass as wl
from windlass.search.spaces import Choice, Randint, Uniform, flatten


def test_spaces_are_plain_values_with_a_json_form() -> None:
    spaces = {
        "a": wl.uniform(0, 1),
        "b": wl.uniform(0, 1, step=0.25),
        "c": wl.loguniform(1e-5, 1e-1),
        "d": wl.randint(1, 8),
        "e": wl.randint(1, 1024, log=True),
        "f": wl.choice("adam", None, True, 0.5, [64, 32], {"layers": 2}),
    }
    kind = dict[str, Uniform | Randint | Choice]
    assert msgspec.json.decode(msgspec.json.encode(spaces), type=kind) == spaces
    assert spaces["a"] == wl.uniform(0.0, 1.0)


def test_ends_are_included_and_steps_are_exact() -> None:
    assert wl.uniform(0.1, 0.5, step=0.1).values == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert wl.uniform(0, 1, step=0.3).values == [0.0, 0.3, 0.6, 0.9]
    assert wl.randint(1, 4).values == [1, 2, 3, 4]
    assert wl.uniform(0, 1).values is None


def test_a_choice_accepts_lists_and_numpy_numbers() -> None:
    assert wl.choice([1, 2]) == wl.choice(1, 2) == wl.choice(range(1, 3))
    plain = wl.choice(np.float64(0.5), np.int64(3)).options
    assert plain == (0.5, 3)
    assert [type(value) for value in plain] == [float, int]
    assert wl.choice(1, True, 1.0).options == (1, True, 1.0), "as JSON they are three"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wl.uniform(1, 0), "Swap them: wl.uniform(0, 1)"),
        (lambda: wl.uniform(1, 1), "args="),
        (lambda: wl.uniform("a", 1), "not a number"),  # type: ignore[arg-type]
        (lambda: wl.uniform(0, math.inf), "high is inf"),
        (lambda: wl.uniform(0, 1, step=0), "step is 0"),
        (lambda: wl.loguniform(0, 1), "slightly above 0"),
        (lambda: wl.randint(0, 1.5), "wl.uniform"),  # type: ignore[arg-type]
        (lambda: wl.randint(0, 8, log=True), "Begin with 1"),
        (lambda: wl.randint(1, 8, log=True, step=2), "cannot be combined"),
        (lambda: wl.choice(), "nothing to choose from"),
        (lambda: wl.choice("a", "a"), "twice"),
        (lambda: wl.choice(max), "Use a name"),
        (lambda: wl.choice(math.nan), "recorded"),
    ],
)
def test_an_invalid_space_is_refused_with_a_remedy(make: Any, message: str) -> None:
    with pytest.raises(wl.InvalidArgument) as refused:
        make()
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "nothing to search"),
        ([1], "must map parameter names"),
        ({"lr": [0.1, 0.2]}, "wl.choice([0.1, 0.2])"),
        ({"lr": 0.1}, 'args={"lr": 0.1}'),
        ({"net": {"lr": wl.uniform}}, "uniform(...)"),
        ({1: wl.uniform(0, 1)}, "not a valid parameter name"),
    ],
)
def test_a_value_that_is_not_a_space_is_refused_with_an_example(space: Any, message: str) -> None:
    with pytest.raises(wl.InvalidArgument) as refused:
        flatten(space)
    assert message in str(refused.value)
