"""Metrics files: records of both kinds, complete or partial; their columns; downsampling."""

from __future__ import annotations

import json
import math
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.server.stores.metrics.chunks import (
    FOLDER,
    find_parts,
    list_chunks,
    make_chunk,
    read_metrics,
)
from windlass.server.stores.metrics.columns import Column, make_column
from windlass.server.stores.metrics.downsample import downsample
from windlass.server.stores.metrics.file_reader import read_reports
from windlass.worker.common.metrics_file import Form, append_metrics, json_record, progress_record

FORMS = {
    "one": Form("training", ["loss"]),
    "two": Form("training", ["loss", "norm"]),
    "other": Form("validation", ["loss"]),
}


def write(path: Path, *parts: bytes) -> Path:
    path.with_name("metrics.names").write_bytes(b"".join(form.line for form in FORMS.values()))
    path.write_bytes(b"".join(parts))
    return path


def read(path: Path) -> dict[str, list[tuple[int, float]]]:
    """All steps and values of a file, by metric."""
    points: dict[str, list[tuple[int, float]]] = {}
    for columns, _ in read_metrics(path, lambda _name: True):
        for name, column in columns.items():
            points.setdefault(name, []).extend(zip(column.steps, column.values, strict=True))
    return points


def test_records_of_both_kinds_can_be_mixed(tmp_path: Path) -> None:
    path = write(
        tmp_path / "metrics",
        FORMS["one"].record(1.0, 1, [0.1]),
        FORMS["two"].record(2.0, 2, [0.2, 7.0]),
        json_record(3.0, 3, '"training"', {'"loss"': 0.3}),
        FORMS["other"].record(4.0, 4, [0.4]),
        progress_record(5.0, 0.5),
        FORMS["one"].record(6.0, 6, [math.nan]),
    )
    append_metrics(str(tmp_path), 7, "system", {"cpu": 50.0}, 7.0)
    reports, end = read_reports(path, 0)
    assert end == path.stat().st_size
    assert reports.progress is not None
    assert reports.progress.share == 0.5
    columns = {name: list(zip(*column, strict=True)) for name, column in reports.columns.items()}
    assert columns["loss"][:3] == [(1, 1.0, 0.1), (2, 2.0, 0.2), (3, 3.0, 0.3)]
    assert math.isnan(columns["loss"][3][2])
    assert columns["norm"] == [(2, 2.0, 7.0)]
    assert columns["validation/loss"] == [(4, 4.0, 0.4)]
    assert columns["system/cpu"] == [(7, 7.0, 50.0)]


@pytest.mark.parametrize("cut", range(1, 56))
def test_a_damaged_record_affects_no_other_record(tmp_path: Path, cut: int) -> None:
    torn = FORMS["two"].record(9.0, 9, [9.0, 9.0])
    assert len(torn) == 48
    text = json_record(9.0, 9, '"training"', {'"loss"': 9.0})
    before = FORMS["one"].record(1.0, 1, [0.1])
    after = [FORMS["one"].record(2.0, 2, [0.2]), json_record(3.0, 3, '"training"', {'"loss"': 0.3})]
    for half in {torn[: min(cut, 47)], text[: min(cut, len(text) - 2)]}:
        for ended in (b"", b"\n"):
            for one, other in (after, after[::-1]):
                path = write(tmp_path / "metrics", before, half, ended, one, other, after[0])
                assert {2, 3} <= {step for step, _ in read(path)["loss"]}
                assert 9 not in {step for step, _ in read(path)["loss"]}


def test_half_a_record_is_read_once_it_is_complete(tmp_path: Path) -> None:
    whole = FORMS["one"].record(2.0, 2, [0.2])
    first = FORMS["one"].record(1.0, 1, [0.1])
    for cut in range(len(whole)):
        path = write(tmp_path / "metrics", first, whole[:cut])
        reports, end = read_reports(path, 0)
        assert (end, list(reports.columns["loss"].steps)) == (len(first), [1])
        write(path, first, whole)
        reports, end = read_reports(path, end)
        assert (end, list(reports.columns["loss"].steps)) == (80, [2])


PARTS = st.lists(
    st.one_of(
        st.sampled_from(sorted(FORMS)),
        st.just("json"),
        st.binary(max_size=60).filter(lambda data: b"\xffWL" not in data),
    ),
    max_size=60,
)


@given(parts=PARTS, repeats=st.integers(1, 40))
def test_all_records_are_read_despite_any_bytes_between_them(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str | bytes], repeats: int
) -> None:
    data, steps = [], []
    for part in parts:
        for _ in range(repeats):
            number = len(steps)
            if isinstance(part, bytes):
                data.append(part + b"\n")
                break
            steps.append(number)
            if part == "json":
                data.append(json_record(1.0, number, '"training"', {'"loss"': 1.0}))
            else:
                values = [1.0, 2.0] if part == "two" else [1.0]
                data.append(FORMS[part].record(1.0, number, values))
    path = write(tmp_path_factory.mktemp("file") / "metrics", *data)
    points = read(path)
    loss_steps = [step for name in ("loss", "validation/loss") for step, _ in points.get(name, [])]
    assert sorted(loss_steps) == steps


def long_file(path: Path, count: int = 60_000) -> list[float]:
    chance = random.Random(7)
    values = [chance.gauss(0, 1) for _ in range(count)]
    values[count // 3] = 1e9
    values[count // 2] = math.nan
    form = FORMS["two"]
    write(path, *(form.record(float(n), n, [value, 0.0]) for n, value in enumerate(values)))
    return values


def test_chunks_agree_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics"
    values = long_file(path)
    plain = read(path)
    made = 0
    while make_chunk(path):
        made += 1
    assert made == len(list_chunks(path)) == path.stat().st_size >> 20
    assert repr(read(path)) == repr(plain)
    assert repr([value for _, value in plain["loss"]]) == repr(values)


@pytest.mark.parametrize("damage", [b"", b"rubbish", None])
def test_a_damaged_chunk_is_ignored(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "metrics"
    long_file(path)
    plain = read(path)
    while make_chunk(path):
        pass
    for chunk in list_chunks(path).values():
        whole = chunk.path.read_bytes()
        chunk.path.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert repr(read(path)) == repr(plain)


def test_a_chunk_with_a_wrong_size_is_not_read_beyond_its_end(tmp_path: Path) -> None:
    path = tmp_path / "metrics"
    long_file(path)
    plain = read(path)
    folder = path.with_name(FOLDER)
    folder.mkdir()
    index = json.dumps({"loss": [0, 1 << 50, 0]}).encode()
    (folder / "0-100").write_bytes(index + len(index).to_bytes(8, "little") + b"WLcolumn")
    assert repr(read(path)) == repr(plain)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 10, 100, 1000, 10_000])
def test_downsampling_keeps_the_ends_and_the_spikes(tmp_path: Path, most: int) -> None:
    path = tmp_path / "metrics"
    values = long_file(path)
    few = find_parts(path, "loss".__eq__)["loss"].fewer(most)
    assert 0 < len(few.values) <= most
    assert list(few.steps) == sorted(set(few.steps))
    assert all(repr(values[step]) == repr(value) for step, _, value in zip(*few, strict=True))
    assert few.steps[-1] == len(values) - 1
    if most > 4:
        assert few.steps[0] == 0
        assert max(value for value in few.values if value == value) == 1e9
        assert any(value != value for value in few.values)


@given(
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=300),
    most=st.integers(5, 100),
)
def test_the_minimum_and_the_maximum_always_stay(values: list[float], most: int) -> None:
    few = downsample(column(values), most)
    assert len(few.values) <= most
    numbers = [value for value in values if value == value]
    if numbers:
        kept = [value for value in few.values if value == value]
        assert (min(kept), max(kept)) == (min(numbers), max(numbers))
    assert any(v != v for v in few.values) == any(v != v for v in values)


def column(values: list[float]) -> Column:
    return make_column((step, float(step), value) for step, value in enumerate(values))


def test_two_concurrent_readers_create_each_chunk_once(tmp_path: Path) -> None:
    import threading

    path = tmp_path / "metrics"
    long_file(path)
    together = threading.Barrier(4)

    def make() -> None:
        together.wait()
        while make_chunk(path):
            pass

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chunks = sorted(list_chunks(path).values(), key=lambda chunk: chunk.start)
    assert [chunk.start for chunk in chunks] == [0, *(chunk.end for chunk in chunks[:-1])]
    assert len(os.listdir(path.with_name(FOLDER))) == len(chunks)
