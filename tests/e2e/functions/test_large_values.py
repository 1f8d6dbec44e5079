"""Large arguments and closure variables are stored once, and each trial gets them unchanged."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from steps import newest

import windlass as wl
from harness import Project

pytestmark = pytest.mark.finding("U13")

LARGE = 12_000_000  # bytes


def stored_size(home: Path) -> int:
    return sum(file.stat().st_size for file in (home / "blobs").glob("??/*"))


def payload_of(home: Path, trial_id: int) -> Path:
    launch = json.loads((home / f"trials/{trial_id}/main-0/1/launch.json").read_text())
    return Path(launch["executable"]["payload"])


def test_the_same_array_of_a_map_is_stored_once(
    fresh_home: Path, recwarn: pytest.WarningsRecorder
) -> None:
    @wl.run(cpus=0.25)
    def total(array: Any, plus: int) -> float:
        return float(array.sum()) + plus

    array = np.ones(LARGE // 8)
    values = list(total.starmap([(array, number) for number in range(4)]))
    assert values == [array.size + number for number in range(4)]
    assert LARGE <= stored_size(fresh_home) < 2 * LARGE
    # A second submission finds the array in the store.
    assert total(array, 0) == array.size
    assert stored_size(fresh_home) < 2 * LARGE
    messages = [str(warning.message) for warning in recwarn]
    [message] = [text for text in messages if "The argument 'array' of total is 12.0 MB" in text]
    assert "pass a path" in message


def test_a_large_closure_variable_is_stored_once_and_named_in_a_warning(fresh_home: Path) -> None:
    data = os.urandom(LARGE)
    numbers = list(range(300_000))  # large as a whole, although each value is small

    @wl.run(cpus=0.25)
    def measure(word: str) -> tuple[str, int, int]:
        return word, len(data), sum(numbers)

    with pytest.warns(UserWarning, match="closure variable 'data' of measure is 12.0 MB"):
        values = list(measure.map(["a", "long word"]))
    assert values == [(word, LARGE, sum(numbers)) for word in ("a", "long word")]
    assert stored_size(fresh_home) < 2 * LARGE  # the code of these tests included
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a function gets its warning once
        assert measure("b")[0] == "b"


def test_a_large_value_comes_unchanged_and_can_be_changed(fresh_home: Path) -> None:
    @wl.run(cpus=0.25)
    def change(array: Any, text: str, raw: bytearray, same: Any) -> list[Any]:
        array[0] = 7  # not a view of the stored content
        raw[0] = 1
        again = hashlib.sha256(text.encode()).hexdigest()
        return [array[:2].tolist(), again, raw[:2], same is array]

    text = "grüße" * 100_000
    array = np.zeros((500, 1000), order="F")
    expected = hashlib.sha256(text.encode()).hexdigest()
    for _ in range(2):
        values = change(array, text, bytearray(1_000_000), array)
        assert [values[1], values[2], values[3]] == [expected, bytearray([1, 0]), True]
        assert np.asarray(values[0]).ravel()[0] == 7


def test_damaged_and_deleted_large_values_are_sent_again(
    fresh_home: Path, project: Project
) -> None:
    project.write(
        "program.py",
        """
        import windlass as wl

        @wl.run(cpus=0.05)
        def last(data):
            return data[-1]

        if __name__ == "__main__":
            print(last(bytes(2_000_000) + bytes([41])))
        """,
    )
    digest = hashlib.sha256(bytes(2_000_000) + bytes([41])).hexdigest()
    value = fresh_home / "blobs" / digest[:2] / digest
    assert project.python("program.py").stdout == "41\n"
    with value.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x28")
    failed = project.python("program.py")
    assert failed.returncode == 1
    assert "a large value of its call is damaged in the store and was set aside" in failed.stderr
    assert project.python("program.py").stdout == "41\n"


def test_garbage_collection_keeps_large_values_of_trials(fresh_home: Path) -> None:
    @wl.run(cpus=0.25)
    def size(data: bytes) -> int:
        return len(data)

    data = os.urandom(400_000)
    assert size(data) == len(data)
    trial = wl.get_trial(newest())
    for path in (fresh_home / "blobs").glob("??/*"):
        os.utime(path, (0, 0))
    wl.Client().gc(older_than=0)
    digest = hashlib.sha256(data).hexdigest()
    assert (fresh_home / "blobs" / digest[:2] / digest).exists()
    assert payload_of(fresh_home, trial.id).exists()
    assert trial.rerun().result(timeout=60) == len(data)
