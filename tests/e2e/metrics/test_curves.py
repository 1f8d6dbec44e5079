"""Curves of reported metrics: filtered, downsampled, of many trials, followed."""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from metric_functions import report_again, report_all
from steps import wait_for

import windlass as wl
from harness import PATIENCE, eventually, kill_server
from job_requests import role, submit
from windlass.client.client import default_client
from windlass.model.metrics import FetchMetrics

SHARES_HOME = True

# Two replicas, the first of which restarts at step 2; another group; a spike.
PROGRAM = """
import windlass as wl
first = 2 if attempt == 2 else 0
for step in range(first, 6):
    wl.report(step, loss=100 * attempt + 10 * index + step)
    wl.report(step, group="validation", loss=0.5, accuracy=float("nan"))
    if (index, attempt, step) == (0, 1, 4):
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def finished(module_home: Path) -> wl.Trial[Any]:
    """A trial of two replicas, shared by the tests that only read its metrics."""
    workers = role(PROGRAM, replicas=2, restart_policy="OnFailure")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINDLASS_HOME", str(module_home))
        return submit(workers, restart_scope="replica").wait(timeout=PATIENCE)


@pytest.fixture
def trial(home: Path, finished: wl.Trial[Any]) -> wl.Trial[Any]:
    return finished


def point_tuples(metrics: wl.Metrics) -> list[tuple[int, int, int]]:
    return [(point.index, point.attempt, point.step) for point in metrics]


def test_points_can_be_filtered_by_replica_attempt_and_group(trial: wl.Trial[Any]) -> None:
    first = [(0, 1, step) for step in range(5)]
    again = [(0, 2, step) for step in range(2, 6)]
    other = [(1, 1, step) for step in range(6)]
    assert point_tuples(trial.metrics("loss")) == first + again + other
    assert point_tuples(trial.metrics("loss", index=0)) == first + again
    assert point_tuples(trial.metrics("loss", attempt=1)) == first + other
    assert point_tuples(trial.metrics("loss", index=0, attempt=2, role="worker")) == again
    assert point_tuples(trial.metrics("loss", role="nobody", attempt=7)) == []
    grouped = list(trial.metrics("loss", group="validation"))
    assert {(point.name, point.value) for point in grouped} == {("validation/loss", 0.5)}
    assert len(grouped) == 15
    names = {point.name for point in trial.metrics(group="validation")}
    assert names == {"validation/loss", "validation/accuracy"}
    assert {point.name for point in trial.metrics(group="training")} == {"loss"}
    both = {point.name for point in trial.metrics(["loss", "validation/accuracy"])}
    assert both == {"loss", "validation/accuracy"}


def test_a_summary_has_each_step_of_each_replica_once(trial: wl.Trial[Any]) -> None:
    loss = trial.summary_metrics["loss"]
    assert (loss.count, loss.min, loss.max) == (12, 100, 205)
    counted = [100, 101, *range(202, 206), *range(110, 116)]
    assert loss.mean == pytest.approx(sum(counted) / 12)


def test_points_are_available_as_an_array_and_a_data_frame(trial: wl.Trial[Any]) -> None:
    points = list(trial.metrics("loss"))
    array = trial.metrics("loss").to_numpy()
    assert array["value"].tolist() == [point.value for point in points]
    assert array["step"].tolist() == [point.step for point in points]
    assert array["time"].tolist() == [point.time for point in points]
    assert array["attempt"].tolist() == [point.attempt for point in points]
    assert set(array["trial"].tolist()) == {trial.id}
    frame = trial.metrics().to_pandas()
    assert len(frame) == 45
    assert frame["value"].isna().sum() == 15
    loss = frame[frame["name"] == "loss"]
    assert loss["value"].tolist() == array["value"].tolist()
    assert loss.groupby("index")["step"].max().to_dict() == {0: 5, 1: 5}
    empty = trial.metrics("loss", attempt=9)
    assert (len(empty.to_numpy()), len(empty.to_pandas())) == (0, 0)


def test_downsampling_of_a_long_curve_keeps_its_spikes(home: Path) -> None:
    program = """
import windlass as wl
for step in range(120_000):
    wl.report(step, loss=-50.0 if step == 77_777 else 1 / (step + 1), flat=0.0)
wl.report(120_000, loss=float("nan"))
"""
    trial = submit(role(program)).wait(timeout=PATIENCE)
    for most in (50, 200, 1000, 30_000):  # from outlines, and from all points
        points = list(trial.metrics("loss", max_points=most))
        assert most // 2 <= len(points) <= most
        steps = [point.step for point in points]
        assert steps == sorted(steps)
        assert (steps[0], steps[-1]) == (0, 120_000)
        assert 77_777 in steps
        assert math.isnan(points[-1].value)
    folder = Path(trial.directory, "worker-0", "1", "columns")
    assert len(list(folder.iterdir())) == 5  # of 1 MiB each; later points are in the file
    points = list(trial.metrics("loss"))
    assert [point.step for point in points] == list(range(120_001))


def test_several_replicas_share_max_points(trial: wl.Trial[Any]) -> None:
    for most in range(1, 16):
        points = list(trial.metrics("loss", max_points=most))
        assert 0 < len(points) <= most
    assert point_tuples(trial.metrics("loss", max_points=15)) == point_tuples(trial.metrics("loss"))


def test_metrics_of_many_trials_come_in_one_request(home: Path) -> None:
    trials = [report_all.submit([float(n), n + 0.5]) for n in range(3)]
    trials.append(report_all.submit([7.0], group="validation"))
    for trial in trials:
        trial.wait(timeout=PATIENCE)
    metrics = wl.get_metrics(trials, "loss")
    values = {(point.trial_id, point.step): point.value for point in metrics}
    expected = {
        (trial.id, step): n + step / 2 for n, trial in enumerate(trials[:3]) for step in (0, 1)
    }
    assert values == expected
    everything = wl.get_metrics([trial.id for trial in trials]).to_pandas()
    assert set(everything["name"]) == {"loss", "validation/loss"}
    assert len(list(wl.get_metrics(trials, ["loss"], max_points=1))) == 3
    one = list(wl.get_metrics(trials[0], "loss"))
    assert one == list(wl.get_metrics(trials[0].id, "loss")) == list(trials[0].metrics("loss"))
    transport = default_client().transport
    data = transport.fetch("POST", "/metrics", body=FetchMetrics(trials=(trials[0].id,)))
    length = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + length])
    assert [curve["count"] for curve in head["curves"]] == [2]
    assert len(data) == 8 + length + 2 * 24


def test_an_unknown_metric_raises_an_error_with_a_suggestion(home: Path) -> None:
    trial = report_all.submit([1.0]).wait(timeout=PATIENCE)
    with pytest.raises(KeyError, match="Did you mean 'loss'"):
        list(trial.metrics("lss", max_points=10))
    with pytest.raises(KeyError, match="has no metric 'validation/loss'"):
        list(trial.metrics("loss", group="validation"))
    other = report_all.submit([2.0], group="validation").wait(timeout=PATIENCE)
    both = wl.get_metrics([trial, other], ["loss", "validation/loss"])  # each trial has one of them
    assert [point.trial_id for point in both] == [trial.id, other.id]
    for names in (["loss", "los"], ["los"]):
        with pytest.raises(wl.NotFound, match="None of the 2 trials has a metric 'los'") as refused:
            next(iter(wl.get_metrics([trial, other], names)))
        assert "Did you mean 'loss'? There is: loss, validation/loss." in str(refused.value)
    with pytest.raises(KeyError, match="has no metric 'los'"):
        list(trial.metrics(["loss", "los"]))
    for wrong in (0, -1, 10**8, 1.5, True, "10"):
        with pytest.raises(wl.InvalidArgument, match="max_points"):
            trial.metrics("loss", max_points=wrong)  # type: ignore[arg-type]
    with pytest.raises(wl.InvalidArgument, match="attempt"):
        trial.metrics("loss", attempt="last")  # type: ignore[arg-type]
    with pytest.raises(wl.InvalidArgument, match="metric name"):
        trial.metrics(7)  # type: ignore[arg-type]
    with pytest.raises(wl.InvalidArgument, match="follow"):
        trial.metrics("loss", follow=True, max_points=5)
    with pytest.raises(wl.NotFound):
        list(wl.get_metrics([trial.id, 99_999], "loss"))
    for wrong_trials in ([], ["7"], [True], list(range(1, 1002))):
        with pytest.raises(wl.InvalidArgument, match="trial"):
            wl.get_metrics(wrong_trials, "loss")  # type: ignore[arg-type]
    with pytest.raises(wl.InvalidArgument):  # a client without the SDK
        transport = default_client().transport
        query = {"trials": [trial.id], "max_points": -1}
        transport.fetch("POST", "/metrics", body=json.dumps(query).encode())
    for position in (-1, 2**63, 2**70, "x"):
        query = {"trials": [trial.id], "positions": {f"{trial.id}/main/0/1": position}}
        with pytest.raises(wl.InvalidArgument):
            transport.fetch("POST", "/metrics", body=json.dumps(query).encode())
    with pytest.raises(wl.NotFound, match="no trial 9223372036854775808"):
        list(wl.get_metrics([2**63]))


def test_a_running_trial_may_still_report_an_unknown_metric(home: Path, gate: Path) -> None:
    @wl.run(cpus=0.1)
    def late(gate: str) -> None:
        wl.report(0, loss=1.0)
        wait_for(gate)
        wl.report(1, accuracy=0.5)

    trial = late.submit(str(gate))
    eventually(lambda: "loss" in trial.refresh().summary_metrics, "it reports")
    assert [point.value for point in trial.metrics(["loss", "accuracy"])] == [1.0]
    gate.touch()
    trial.wait(timeout=PATIENCE)
    assert [point.value for point in trial.metrics("accuracy")] == [0.5]
    with pytest.raises(KeyError, match="has no metric 'never'"):
        list(trial.metrics("never", follow=True))


@pytest.mark.thorough
def test_points_are_followed_to_the_end_across_a_server_kill(home: Path, tmp_path: Path) -> None:
    gates = [tmp_path / f"gate-{n}" for n in range(3)]
    program = f"""
import windlass as wl
for turn, gate in enumerate({list(map(str, gates))!r}):
    wait_for(gate)
    for step in range(3):
        wl.report(3 * turn + step, loss=index)
"""
    trial = submit(role(program, replicas=2))
    seen: list[tuple[int, int]] = []
    gates[0].touch()
    opened = 1
    for point in trial.metrics("loss", follow=True, timeout=PATIENCE):
        seen.append((point.index, point.step))
        if len(seen) == 6 * opened < 18:
            kill_server(home)
            gates[opened].touch()
            opened += 1
    assert sorted(seen) == [(index, step) for index in range(2) for step in range(9)]
    assert trial.refresh().state == "SUCCEEDED"
    assert point_tuples(trial.metrics("loss", follow=True)) == point_tuples(trial.metrics("loss"))


def test_points_are_followed_concurrently_with_other_work(home: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    trial = report_all.submit([1.0, 2.0, 3.0], gate=str(gate))

    async def follow() -> list[float]:
        values = []
        async for point in trial.metrics("loss", follow=True, timeout=PATIENCE):
            values.append(point.value)
            if len(values) == 3:
                gate.touch()
        return values

    async def both() -> tuple[list[float], int]:
        following = asyncio.create_task(follow())
        turns = 0
        while not following.done():
            turns += 1
            await asyncio.sleep(0.001)
        return following.result(), turns

    values, turns = asyncio.run(both())
    assert values == [1.0, 2.0, 3.0]
    assert turns > 1
    assert [point.value for point in trial.metrics("loss")] == values

    async def plainly() -> list[float]:
        return [point.value async for point in trial.metrics("loss")]

    assert asyncio.run(plainly()) == values


def test_following_ends_on_timeout_or_cancellation(home: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    trial = report_all.submit([1.0], gate=str(gate))
    assert [point.value for point in islice(trial.metrics("loss", follow=True), 1)] == [1.0]
    with pytest.raises(wl.WaitTimeout, match="continues to run"):
        list(trial.metrics("loss", follow=True, timeout=0.2))

    async def give_up() -> None:
        async def follow() -> None:
            async for _ in trial.metrics("never", follow=True):
                pass

        await asyncio.wait_for(follow(), 0.3)

    began = time.monotonic()
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(give_up())
    assert time.monotonic() - began < PATIENCE
    gate.touch()
    trial.wait(timeout=PATIENCE)


def test_progress_is_visible_while_the_trial_runs(home: Path, tmp_path: Path) -> None:
    gates = [tmp_path / "first", tmp_path / "second"]
    program = f"""
import windlass as wl
wl.report_progress(0.25)
wait_for({str(gates[0])!r})
for wrong in (-0.1, 1.1, float("nan"), "half", None):
    try:
        wl.report_progress(wrong)
    except wl.InvalidArgument as error:
        print(error.message)
wl.report_progress(1)
wait_for({str(gates[1])!r})
"""
    trial = submit(role(program))
    eventually(lambda: trial.refresh().progress == 0.25, "its progress is reported")
    kill_server(home)
    assert trial.refresh().progress == 0.25
    gates[0].touch()
    eventually(lambda: trial.refresh().progress == 1.0, "it is done")
    gates[1].touch()
    trial.wait(timeout=PATIENCE)
    assert trial.progress == 1.0
    assert list(trial.logs()) == [
        "progress: -0.1 is not between 0 and 1.",
        "progress: 1.1 is not between 0 and 1.",
        "progress: nan is not between 0 and 1.",
        "progress: 'half' is not a number.",
        "progress: None is not a number.",
    ]


def test_an_invalid_value_does_not_lose_earlier_points(home: Path) -> None:
    program = """
import windlass as wl
wl.report(1, loss=0.5)
for wrong in ("0.25", None, [1], object()):
    try:
        wl.report(2, loss=wrong)
    except TypeError as error:
        assert str(error).startswith("loss: "), error
    else:
        raise SystemExit("taken")
for step in (-1, 1.5, "1", 2**63):
    try:
        wl.report(step, loss=1)
    except (TypeError, ValueError) as error:
        assert str(error).startswith("step: "), error
    else:
        raise SystemExit("taken")
for group in ("", 3, ["a"], "g" * 10_000):
    try:
        wl.report(3, group=group, loss=1)
    except (TypeError, ValueError) as error:
        assert "valid group name" in str(error), error
    else:
        raise SystemExit("taken")
refused = 0
for number in range(3000):
    try:
        wl.report(3, **{f"n{number}": 1})
    except ValueError as error:
        assert "at most 1000 metrics" in str(error)
        refused += 1
assert refused == 2001, refused
wl.report(4, loss=0.25)
"""
    trial = submit(role(program)).wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", list(trial.logs())
    assert [point.value for point in trial.metrics("loss")] == [0.5, 0.25]
    assert len(trial.summary_metrics) == 1000


def test_metrics_of_an_older_version_are_read(home: Path) -> None:
    """Older programs wrote only lines of JSON, and may still run under a newer server."""
    program = """
import windlass as wl
own = os.path.join(wl.current_trial().directory, name, str(attempt), "metrics")
with open(own, "a") as file:
    for step in range(3000):
        file.write('[%d.5,%d,"training",{"loss":%r,"odd":"nan"}]\\n' % (step, step, step / 2))
wl.report(3000, loss=7)
"""
    trial = submit(role(program)).wait(timeout=PATIENCE)
    assert trial.summary_metrics["loss"].count == 3001
    assert [point.value for point in trial.metrics("loss")][-2:] == [1499.5, 7.0]
    assert 0 < len(list(trial.metrics("odd", max_points=10))) <= 10


def test_the_server_never_loads_numpy(home: Path) -> None:
    trial = report_again.submit(4).wait(timeout=PATIENCE)
    list(trial.metrics("loss", max_points=2))
    server = json.loads((home / "server.json").read_bytes())
    maps = Path(f"/proc/{server['pid']}/maps")
    if not os.access(maps, os.R_OK):
        pytest.skip("what a process has loaded cannot be seen here")
    assert "numpy" not in maps.read_text()
