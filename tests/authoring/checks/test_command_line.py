"""The rule that turns a mapping into command-line arguments, and the values it refuses."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.authoring.checks.command_line import check_arguments, command_line, dropped_names


def test_argparse_reads_the_intended_values() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float)
    parser.add_argument("--shift", type=int)
    parser.add_argument("--note")
    parser.add_argument("--amp", action=argparse.BooleanOptionalAction)
    parser.add_argument("--cache", action=argparse.BooleanOptionalAction)
    parser.add_argument("--model.tied", dest="tied", action=argparse.BooleanOptionalAction)
    parser.add_argument("--tag", action="append")
    parser.add_argument("--model.depth", dest="depth", type=int)
    arguments = {
        "lr": 1e-05,
        "shift": -3,
        "note": "--amp",
        "amp": True,
        "cache": False,
        "tag": ["a", "-b"],
        "model": {"depth": 4, "tied": False},
    }
    read = vars(parser.parse_args(command_line(arguments)))
    assert read == {
        "lr": 1e-05,
        "shift": -3,
        "note": "--amp",
        "amp": True,
        "cache": False,
        "tag": ["a", "-b"],
        "depth": 4,
        "tied": False,
    }


@given(st.one_of(st.text(), st.integers(), st.floats(allow_nan=False)))
def test_a_value_with_any_prefix_stays_the_value_of_its_flag(value: Any) -> None:
    if check_arguments({"x": value}):
        return  # half a character, a NUL: refused
    parser = argparse.ArgumentParser()
    parser.add_argument("--x", type=type(value))
    assert parser.parse_args(command_line({"x": value})).x == value


def test_none_adds_no_argument_and_its_names_are_returned() -> None:
    arguments = {"a": None, "b": 1, "c": {"d": None}}
    assert command_line(arguments) == ["--b=1"]
    assert dropped_names(arguments) == ["a", "c.d"]
    assert command_line({"empty": [], "also": {}}) == []


def test_a_list_is_used_as_it_is() -> None:
    words = ["train", "--lr", 0.1, 3, Path("data/x")]
    assert command_line(words) == ["train", "--lr", "0.1", "3", "data/x"]
    assert dropped_names(words) == []


def test_paths_and_numpy_numbers_are_valid_values() -> None:
    arguments = {"out": Path("a/b"), "lr": np.float64(0.5), "n": np.int32(3)}
    assert not check_arguments(arguments)
    assert command_line(arguments) == ["--out=a/b", "--lr=0.5", "--n=3"]


@pytest.mark.parametrize(
    ("arguments", "keys", "message"),
    [
        ("--lr 0.1", ("args",), "is neither a mapping of flags nor a list of words"),
        (3, ("args",), "is neither a mapping of flags nor a list of words"),
        ({"--lr": 1}, ("args", "--lr"), "args: '--lr' is not a valid flag name; write 'lr'"),
        ({"lr=1": 1}, ("args", "lr=1"), "'lr=1' is not a valid flag name; write 'lr'"),
        ({"a b": 1}, ("args", "a b"), "'a b' is not a valid flag name"),
        ({"": 1}, ("args", ""), "'' is not a valid flag name"),
        ({3: 1}, ("args", "3"), "3 is not a valid flag name"),
        ({"x": object}, ("args", "x"), "which is neither a string nor a number"),
        ({"m": {"x": b"x"}}, ("args", "m", "x"), "args: m.x is b'x', which is neither"),
        ({"x": [1, None]}, ("args", "x"), "args: x is None, which is neither"),
        ({"x": [{"y": 1}]}, ("args", "x"), "which is neither a string nor a number"),
        ({"x": "a\0b"}, ("args", "x"), "contains a NUL character"),
        ({"x": "\ud800"}, ("args", "x"), "half of a surrogate pair"),
        (["a", None], ("args",), "args: None is neither a string nor a number"),
        (["a", True], ("args",), "args: True is neither a string nor a number"),
        (["a", ["b"]], ("args",), "args: ['b'] is neither a string nor a number"),
    ],
)
def test_an_invalid_value_is_reported_with_its_position(
    arguments: Any, keys: tuple[str, ...], message: str
) -> None:
    [(checked, text)] = check_arguments(arguments)
    assert checked == keys
    assert message in text


def test_all_problems_are_reported_at_once() -> None:
    assert len(check_arguments({"--a": 1, "b": object(), "c": {"d e": 1}, "f": 1})) == 3
