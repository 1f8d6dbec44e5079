"""Stored arguments give exactly the same command line when they are read again."""

from __future__ import annotations

import json
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass as wl
from windlass.authoring.checks.command_line import check_arguments, command_line
from windlass.authoring.prepare.exact_json import (
    NotExact,
    call_as_json,
    exact_json,
    words_as_json,
    words_from_json,
)


class Colour(Enum):
    RED = "red"


names = st.text("abcxyz_-.", min_size=1, max_size=6)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), texts,
    st.builds(Decimal, st.integers()), st.just(Colour.RED), st.builds(Path, st.just("a/b")),
    st.builds(np.float32, st.floats(width=32)), st.builds(np.int64, st.integers(0, 9)),
    st.sampled_from([wl.Raw(""), wl.Raw("-v 'a b' $HOME"), wl.Raw("a\\ b")]),
)  # fmt: skip
entries = st.one_of(values, st.lists(values, max_size=3))
mappings = st.dictionaries(
    names, st.one_of(entries, st.dictionaries(names, entries, max_size=3)), max_size=4
)


@given(st.one_of(mappings, st.lists(values, max_size=5)))
def test_stored_arguments_give_the_same_command_line(arguments: Any) -> None:
    if check_arguments(arguments):
        return
    kept = json.loads(json.dumps(words_as_json(arguments), allow_nan=False))
    assert command_line(words_from_json(kept)) == command_line(arguments)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), texts)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_values_with_an_exact_json_form_are_stored_unchanged(value: Any) -> None:
    assert json.loads(json.dumps(exact_json(value))) == value
    assert json.loads(json.dumps(call_as_json({"x": value}))) == {"x": value}


@pytest.mark.parametrize(
    "value", [(1, 2), {1: 2}, {1}, b"x", 2**60, float("nan"), "\ud800", object(), "x" * 2**21]
)
def test_values_that_json_would_change_are_not_stored_for_a_function(value: Any) -> None:
    assert call_as_json({"x": value}) is None


def test_values_that_contain_themselves_end() -> None:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    wide: list[Any] = [0]
    for _ in range(30):  # 2 ** 30 leaves, in sixty values
        wide = [wide, wide]
    for value in (cyclic, wide):
        with pytest.raises(NotExact, match="too deep or too large"):
            exact_json({"x": value})
        assert call_as_json({"x": value}) is None


def test_numpy_numbers_paths_and_tuples_are_stored_as_plain_values() -> None:
    encoded = exact_json({"f": np.float64(0.5), "i": np.int32(3), "p": Path("a"), "t": (1,)})
    assert encoded == {"f": 0.5, "i": 3, "p": "a", "t": [1]}
