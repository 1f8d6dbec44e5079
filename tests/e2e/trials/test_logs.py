"""Logs of trials: search, time ranges, heads and tails."""

from __future__ import annotations

import asyncio
import datetime
import time
from pathlib import Path
from typing import Any

import pytest
from steps import rate

import windlass as wl
from harness import PATIENCE, eventually, kill_server
from job_requests import role, submit
from windlass.client.connection.event_stream import TrialEvents
from windlass.model.logs import LogPage

PROGRAM = """
for step in range(50):
    print(f"{name} step {step} loss={'nan' if step == 40 else step / 8}")
print("aside", file=sys.stderr)
sys.stdout.write("no end to this")
"""


@pytest.fixture(scope="module")
def trial(module_home: Path) -> wl.Trial[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINDLASS_HOME", str(module_home))
        return submit(role(PROGRAM, replicas=2)).wait(PATIENCE)


@pytest.fixture(autouse=True)
def at_home(home: Path) -> None:
    """Every test uses the server of this file's home."""


def test_a_search_finds_a_text_or_an_expression(trial: wl.Trial[Any]) -> None:
    assert sorted(trial.logs(search="loss=nan")) == [
        "worker-0 step 40 loss=nan",
        "worker-1 step 40 loss=nan",
    ]
    lines = trial.logs(search=r"^worker-0 step (7|49) ", regex=True)
    assert list(lines) == ["worker-0 step 7 loss=0.875", "worker-0 step 49 loss=6.125"]
    assert list(trial.logs(search="(7|49)")) == []
    assert list(trial.logs(search="no end", role="worker", index=1)) == ["no end to this"]
    assert list(trial.logs(search="aside", stream="stdout")) == []


def test_matching_lines_are_counted_on_the_server(trial: wl.Trial[Any]) -> None:
    assert trial.logs(search="step").count() == 100
    assert trial.logs(search="step [0-9] ", regex=True, index=0).count() == 10
    assert trial.logs(search="step", head=7).count() == 7
    assert trial.logs().count() == 104


def test_the_first_and_the_last_lines_are_returned(trial: wl.Trial[Any]) -> None:
    first = list(trial.logs(head=3, index=0, stream="stdout"))
    assert first == [f"worker-0 step {step} loss={step / 8}" for step in range(3)]
    assert list(trial.logs(head=0)) == []
    assert len(list(trial.logs(head=1000))) == 104
    assert list(trial.logs(head=2, search="aside")) == ["aside", "aside"]
    assert list(trial.logs(tail=1, search="loss", index=1)) == ["worker-1 step 49 loss=6.125"]


def test_lines_of_a_time_range_are_returned(trial: wl.Trial[Any]) -> None:
    lines = list(trial.logs(index=0))
    middle = lines[len(lines) // 2].time
    since = list(trial.logs(index=0, since=middle))
    until = list(trial.logs(index=0, until=datetime.datetime.fromtimestamp(middle)))
    assert since
    assert [*until, *since] == lines
    assert list(trial.logs(since="1h")) == list(trial.logs())
    assert list(trial.logs(until="1h")) == list(trial.logs(since=time.time() + 60)) == []
    assert list(trial.logs(search="step", since=middle, index=0)) == [
        line for line in since if "step" in line
    ]
    assert list(trial.logs(tail=2, until=middle, index=0)) == until[-2:]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"search": "a("}, None),
        ({"search": "a(", "regex": True}, r"'a\(' is not a valid regular expression: missing \)"),
        ({"search": r"(a)\1", "regex": True}, "without look-around and back-references"),
        ({"regex": "a"}, "Pass the expression as search"),
        ({"regex": True}, "The search text is empty"),
        ({"search": ""}, "The search text is empty"),
        ({"search": "a\nb"}, "single lines"),
        ({"head": 1, "tail": 1}, "head and tail cannot be used together"),
        ({"head": -1}, "number of lines"),
        ({"tail": True}, "number of lines"),
        ({"since": "yesterday"}, "'yesterday' is not a time"),
        ({"stream": "stdlog"}, "stdout or stderr"),
        ({"role": "chief"}, "has no role 'chief'"),
    ],
)
def test_an_invalid_log_query_is_refused_with_the_valid_form(
    trial: wl.Trial[Any], options: dict[str, Any], why: str | None
) -> None:
    if why is None:
        assert list(trial.logs(**options)) == []
        return
    with pytest.raises(wl.InvalidArgument, match=why):
        list(trial.logs(**options))


def test_asynchronous_code_follows_a_log(tmp_path: Path) -> None:
    gate = tmp_path / "go"
    program = f'print("begun")\nwait_for({str(gate)!r})\nprint("ended")'
    trial = submit(role(program))

    async def follow() -> list[str]:
        lines = trial.logs(follow=True)
        seen = [await anext(lines)]
        with pytest.raises(asyncio.TimeoutError):  # a cancelled follower may continue
            await asyncio.wait_for(anext(lines), 0.05)
        gate.touch()
        return seen + [line async for line in lines]

    assert asyncio.run(follow()) == ["begun", "ended"]


def test_a_follower_of_a_search_gets_lines_written_in_pieces(tmp_path: Path) -> None:
    gate = tmp_path / "go"
    program = f"""
sys.stdout.write("lo")
print("loss of another stream", file=sys.stderr)
wait_for({str(gate)!r})
print("ss 1")
print("no")
sys.stdout.write("loss to the end")
"""
    trial = submit(role(program))
    lines = trial.logs(follow=True, search="loss")
    assert next(lines) == "loss of another stream"
    gate.touch()
    assert list(lines) == ["loss 1", "loss to the end"]


@pytest.mark.parametrize(
    ("query", "before", "after"),
    [
        ({}, ["line 1", "aside 1"], ["line 2", "aside 2", "line 3"]),
        ({"tail": 1}, ["aside 1"], ["line 2", "aside 2", "line 3"]),
        ({"search": "line"}, ["line 1"], ["line 2", "line 3"]),
        ({"search": "^aside", "regex": True}, ["aside 1"], ["aside 2"]),
        ({"stream": "stdout"}, ["line 1"], ["line 2", "line 3"]),
    ],
    ids=str,
)
def test_a_filtered_log_is_followed_without_loss_across_a_server_kill(
    home: Path, tmp_path: Path, query: dict[str, Any], before: list[str], after: list[str]
) -> None:
    gate = tmp_path / "go"
    program = f"""
print("line 1", flush=True)
print("aside 1", file=sys.stderr, flush=True)
wait_for({str(gate)!r})
print("line 2", flush=True)
print("aside 2", file=sys.stderr, flush=True)
print("line 3", flush=True)
"""
    trial = submit(role(program))
    eventually(lambda: trial.logs().count() == 2, "it wrote the first lines")
    lines = trial.logs(follow=True, **query)
    first = [next(lines) for _ in before]
    kill_server(home)
    gate.touch()
    assert sorted([*first, *lines]) == sorted([*before, *after])


def test_following_an_empty_tail_loses_nothing_across_a_server_kill(
    home: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "go"
    program = f'wait_for({str(gate)!r})\nfor number in range(3): print("line", number)'
    trial = submit(role(program))
    query = {"tail": 1}
    following = iter(TrialEvents(wl.Client().transport, trial_id=trial.id, query=query))
    page = next(following)
    assert isinstance(page, LogPage)
    assert page.items == (), "the empty page has the cursor to go on from"
    kill_server(home)
    gate.touch()
    pages = [news for news in following if isinstance(news, LogPage)]
    assert [part.text for page in pages for part in page.items] == ["line 0", "line 1", "line 2"]


def test_following_ends_at_its_timeout(tmp_path: Path) -> None:
    gate = tmp_path / "go"
    trial = submit(role(f'print("begun")\nwait_for({str(gate)!r})'))
    try:
        assert next(trial.logs(follow=True)) == "begun"
        assert list(trial.logs(follow=True, until=time.time())) == ["begun"]
    finally:
        gate.touch()


def test_the_logs_of_many_trials_are_searched(trial: wl.Trial[Any]) -> None:
    other = submit(role('print("CUDA out of memory")\nprint("step 1")\nsys.exit(3)')).wait(PATIENCE)
    [line] = wl.search_logs("CUDA out of memory")
    assert (line.trial_id, line.trial_name) == (other.id, other.name)
    assert (line.role, line.replica_index, line.attempt) == ("worker", 0, 1)
    assert abs(line.time - time.time()) < PATIENCE
    steps = list(wl.search_logs("step"))
    assert [line.trial_id for line in steps] == [trial.id] * 100 + [other.id]
    assert [line.trial_id for line in wl.search_logs("step", limit=100)] == [trial.id] * 100
    assert list(wl.search_logs("step", state="failed")) == ["step 1"]
    assert list(wl.search_logs("step", trials=[other])) == ["step 1"]
    assert list(wl.search_logs("step", trials=[])) == []
    assert list(wl.search_logs("step", experiment=other.record.experiment)) == steps
    for nowhere in ({"experiment": "none such"}, {"project": "none such"}):
        with pytest.raises(wl.NotFound, match="none such"):
            list(wl.search_logs("step", **nowhere))
    assert list(wl.search_logs("step", project="default")) == steps
    assert wl.search_logs("step").count() == 101
    assert wl.search_logs("loss=(nan|inf)", regex=True, role="worker", index=1).count() == 1
    assert list(wl.search_logs("step", until="1h")) == []
    with pytest.raises(wl.InvalidArgument, match="Write a string"):
        wl.search_logs(7)  # type: ignore[arg-type]


def test_the_logs_of_trials_that_match_a_condition_are_searched() -> None:
    trials = [rate.submit(lr).wait(PATIENCE) for lr in (0.1, 0.5, 2.0)]
    assert list(wl.search_logs("learns", where="hparams.lr < 1")) == [
        "learns at 0.1",
        "learns at 0.5",
    ]
    both = "metrics.loss.min > 0.5 and hparams.lr in (0.1, 0.5)"
    [line] = wl.search_logs("learns at", where=both, experiment="rate", limit=5)
    assert (line.trial_id, line) == (trials[1].id, "learns at 0.5")
    assert wl.search_logs("learns", where=f"id >= {trials[1].id} and name = 'rate'").count() == 2
    ran = wl.run_command(["echo", "learns nothing"], wait=True)
    assert list(wl.search_logs("learns nothing")) == []
    [line] = wl.search_logs("learns nothing", where="kind = 'command'")
    assert line.trial_id == ran.id
    with pytest.warns(UserWarning, match="No trial has a parameter 'lrr'. Did you mean hparams.lr"):
        assert list(wl.search_logs("learns", where="hparams.lrr < 1")) == []
    with pytest.raises(wl.InvalidArgument, match="where: ") as caught:
        list(wl.search_logs("learns", where="hparams.lr <"))
    assert "^" in str(caught.value), "it points at the place"


@pytest.mark.parametrize("cursor", ["x", "1/x", "1//", "-1", "1/main-0.1:5-", "9" * 30])
def test_an_invalid_cursor_is_refused(trial: wl.Trial[Any], cursor: str) -> None:
    with pytest.raises(wl.InvalidArgument, match="cursor"):
        wl.Client().transport.ask("GET", "/logs", dict, query={"search": "a", "cursor": cursor})
