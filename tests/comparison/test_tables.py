"""Tables of trials: their columns, the order of their rows, their data frame library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass as wl
from compared_records import record, summary
from stored_trials import call, submit
from windlass.comparison.data_frame import to_data_frame
from windlass.comparison.tables import Table, build_table, sorted_by
from windlass.model.job import GeneratorCall
from windlass.model.records import ResultInfo, TrialState

SWEEP = [
    record(1, params={"lr": 0.1, "seed": 7}, metrics={"loss": summary(3.0, 0.5)}),
    record(2, params={"lr": 0.2, "seed": 7}, metrics={"loss": summary(0.1, 0.25)}),
    record(3, params={"lr": 0.3, "seed": 7}, state=TrialState.RUNNING, ended=None),
]


def test_the_columns_are_differing_parameters_and_metrics() -> None:
    table = build_table(SWEEP)
    assert table.columns == ("id", "state", "seconds", "lr", "loss")
    assert table.column("loss") == [0.5, 0.25, None]
    assert str(table).splitlines() == [
        "id  state      seconds   lr  loss",
        " 1  SUCCEEDED     2.5s  0.1   0.5",
        " 2  SUCCEEDED     2.5s  0.2  0.25",
        " 3  RUNNING          -  0.3     -",
    ]


def test_differing_names_are_a_column_and_a_single_trial_has_all_parameters() -> None:
    assert build_table([record(1), record(2, name="other")]).columns[1] == "name"
    assert build_table([record(1, params={"lr": 0.1})]).columns == ("id", "state", "seconds", "lr")
    assert build_table([]).columns == ("id", "state", "seconds")
    assert str(build_table([])) == "id  state  seconds"


def test_a_parameter_of_only_some_trials_differs_and_nested_names_have_dots() -> None:
    table = build_table(
        [record(1, params={"m": {"depth": 1}}), record(2, params={"m": {"depth": 2}, "x": None})]
    )
    assert table.columns[3:] == ("m.depth", "x")


def test_columns_with_equal_names_are_distinguished() -> None:
    params = [{"id": 5, "lr": 0.1}, {"id": 6, "lr": 0.2}]
    records = [
        record(n, params=param, metrics={"lr": summary(0.01), "state": summary(n)})
        for n, param in enumerate(params, start=1)
    ]
    table = build_table(records)
    assert table.columns == (
        "id",
        "state",
        "seconds",
        "param.id",
        "lr",
        "metric.lr",
        "metric.state",
    )
    assert table[0] == {
        "id": 1, "state": "SUCCEEDED", "seconds": 2.5, "param.id": 5, "lr": 0.1,
        "metric.lr": 0.01, "metric.state": 1,
    }  # fmt: skip


def test_metrics_can_be_chosen_with_their_statistics() -> None:
    table = build_table(SWEEP, metrics=["loss.min", "loss", "loss.count"])
    assert table.columns[-3:] == ("loss.min", "loss", "loss.count")
    assert [list(row.values())[-3:] for row in table] == [[0.5, 0.5, 2], [0.1, 0.25, 2], [None] * 3]
    assert build_table(SWEEP, metrics="loss.mean").column("loss.mean")[0] == 1.75
    with pytest.raises(wl.InvalidArgument, match="No trial here has reported") as refused:
        build_table(SWEEP, metrics=["lss"])
    assert "Did you mean 'loss'?" in str(refused.value)
    with pytest.raises(wl.InvalidArgument, match="None has been reported"):
        build_table([record(1)], metrics="loss")


def returned(text: str) -> dict[str, Any]:
    return {"result": ResultInfo(digest="x", size=1, text=text)}


def test_return_values_that_differ_are_the_last_column() -> None:
    texts = ["0.349", "None", "0.012", "'best'"]
    trials = [record(n, params={"lr": n}, **returned(text)) for n, text in enumerate(texts, 1)]
    trials.append(record(5, params={"lr": 5}, state=TrialState.RUNNING, ended=None))
    table = build_table(trials, sort_by="outcome")
    assert table.columns == ("id", "state", "seconds", "lr", "outcome")
    assert table.column("outcome") == [0.012, 0.349, "'best'", None, None]
    assert build_table([record(1, **returned("7")), record(2, **returned("7"))]).columns[3:] == ()
    assert build_table([record(1, **returned("7"))]).column("outcome") == [7]


def test_return_values_that_a_metric_shows_are_not_repeated() -> None:
    def columns(*texts: str, metrics: str | None = None) -> tuple[str, ...]:
        losses = [{"loss": summary(0.9, 0.348678)}, {"loss": summary(0.8, 1.59e-7)}]
        trials = [
            record(n, metrics=loss, **returned(text))
            for n, (loss, text) in enumerate(zip(losses, texts, strict=True), 1)
        ]
        return build_table(trials, metrics=metrics).columns[3:]

    assert columns("0.349", "0.0") == columns("0.348678", "1.59e-07") == ("loss",)
    assert columns("0.35", "0.25") == ("loss", "outcome")
    assert columns("0.349", "0.0", metrics="loss.min") == ("loss.min",)
    assert columns("0.349", "0.0", metrics="loss.max") == ("loss.max", "outcome")


def test_a_parameter_and_a_metric_may_be_called_outcome() -> None:
    metrics = {"outcome": summary(3)}
    trials = [
        record(n, params={"outcome": n}, metrics=metrics, **returned(f"{n}.5")) for n in (1, 2)
    ]
    assert build_table(trials).columns[3:] == ("param.outcome", "metric.outcome", "outcome")


def test_rows_are_sorted_and_those_without_a_value_come_last() -> None:
    assert build_table(SWEEP, sort_by="loss").column("id") == [2, 1, 3]
    assert build_table(SWEEP, sort_by="-loss").column("id") == [1, 2, 3]
    assert build_table(SWEEP, sort_by="-lr").column("id") == [3, 2, 1]
    with pytest.raises(wl.InvalidArgument, match="cannot be sorted by 'los'") as refused:
        build_table(SWEEP, sort_by="los")
    assert "Did you mean 'loss'?" in str(refused.value)


_value = (
    st.none()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.lists(st.integers(), max_size=2)
)


@given(st.lists(_value, max_size=12), st.sampled_from(["x", "-x"]))
def test_a_column_of_any_values_can_be_sorted_and_printed(values: list[Any], by: str) -> None:
    table = Table(["n", "x"], [{"n": n, "x": value} for n, value in enumerate(values)])
    done = sorted_by(table, by)
    assert sorted(done.column("n")) == list(range(len(values)))
    empty = [value is None or value != value for value in done.column("x")]
    assert empty == sorted(empty)
    assert len(str(done).splitlines()) == len(values) + 1
    assert done._repr_html_().count("<tr>") == len(values) + 1
    assert repr(done) == str(done)  # at a prompt, like a data frame


def test_a_table_for_notebooks_escapes_html() -> None:
    html = Table(["<b>"], [{"<b>": "<script>alert(1)</script>"}])._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html and "<th>&lt;b&gt;</th>" in html


# -- data frames --------------------------------------------------------------------------

MIXED = Table(
    ["id", "lr", "mixed", "list", "big"],
    [
        {"id": 1, "lr": 0.1, "mixed": 1, "list": [1, 2], "big": 2**70},
        {"id": 2, "lr": None, "mixed": "one", "list": None, "big": None},
    ],
)


def test_with_pandas_the_table_is_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = to_data_frame(build_table(SWEEP, sort_by="loss"))
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["id", "state", "seconds", "lr", "loss"]
    assert list(frame["id"]) == [2, 1, 3]
    assert frame["loss"].dtype == "float64" and frame["loss"].isna().sum() == 1
    assert list(to_data_frame(MIXED)["mixed"]) == [1, "one"]
    assert to_data_frame(build_table([])).empty


def test_without_pandas_the_table_is_a_polars_data_frame() -> None:
    polars = pytest.importorskip("polars")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pandas", None)  # it cannot be imported
        frame = to_data_frame(build_table(SWEEP, sort_by="loss"))
        mixed = to_data_frame(MIXED)
        empty = to_data_frame(build_table([]))
    assert isinstance(frame, polars.DataFrame)
    assert frame["id"].to_list() == [2, 1, 3]
    assert frame["loss"].to_list() == [0.25, 0.5, None]
    assert mixed["mixed"].to_list() == ["1", "one"]
    assert mixed["list"].to_list() == [[1, 2], None]
    assert len(mixed["big"]) == 2
    assert empty.columns == ["id", "state", "seconds"]


def test_without_either_library_the_table_is_a_plain_table() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pandas", None)
        patch.setitem(sys.modules, "polars", None)
        table = to_data_frame(build_table(SWEEP))
    assert isinstance(table, wl.Table)
    assert table[:2].column("id") == [1, 2]


def test_pandas_is_not_loaded_before_a_table_is_requested() -> None:
    code = (
        "import sys, windlass as wl\n"
        "wl.Table, wl.Diff, wl.compare, wl.Experiment\n"
        "import windlass.client.resources.comparison\n"
        "assert not {'pandas', 'polars', 'numpy'} & set(sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- through the server ---------------------------------------------------------------------


def test_a_table_of_an_experiment_leaves_out_auxiliary_trials(home: Path) -> None:
    for lr in (0.2, 0.1):
        submit(experiment="tabled", params={"lr": lr, "seed": 7})
    submit(experiment="tabled", params={"port": 6006}, auxiliary=True)
    builder = call(executable=GeneratorCall(qualname="build"))
    submit(None, builder, experiment="tabled", params={"depth": 3}, spec={"suspend": False})
    frame = wl.get_experiment("tabled").table(sort_by="lr")
    assert list(frame["lr"]) == [0.1, 0.2]
    assert list(frame.columns) == ["id", "state", "seconds", "lr"]


def test_trials_are_compared_by_ids_or_as_objects(home: Path) -> None:
    one, two = submit(params={"lr": 1}), submit(params={"lr": 2})
    frame = wl.compare([two, one.id], sort_by="lr")
    assert list(frame["id"]) == [one.id, two.id]
    assert list(wl.compare(iter([two, one]))["lr"]) == [2, 1]
    for wrong, message in [
        ([one.id], "only .* was named"),
        ([], "none was named"),
        ([one, one.id], f"Trial {one.id} is named twice"),
        (one.id, "is not a list of trials"),
        ("12", "is not a list of trials"),
        ([one.id, "x"], "'x' is neither a trial"),
    ]:
        with pytest.raises(wl.InvalidArgument, match=message):
            wl.compare(wrong)  # type: ignore[arg-type]
    with pytest.raises(wl.NotFound, match="There is no trial 99999"):
        wl.compare([one, 99999])


def test_a_table_has_plain_values(home: Path) -> None:
    assert json.loads(json.dumps(build_table(SWEEP).rows)) == build_table(SWEEP).rows
