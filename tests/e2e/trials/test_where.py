"""Trials filtered and sorted by their parameters and metrics."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path

import pytest

import windlass as wl
from harness import BIN, Project, stop_server

PROGRAM = """
import windlass as wl


@wl.run(cpus=0.5)
def train(lr, model, loss=None, shuffle=True, note=None):
    if loss is not None:
        wl.report(1, **{"loss": loss * 2, "val/loss": loss * 3})
        wl.report(2, **{"loss": loss, "val/loss": loss * 4})
    if note == "fails":
        raise ValueError("no")


def submit(experiment, *rows):
    jobs = [train.options(experiment=experiment, name=name).submit(**row) for name, row in rows]
    for job in jobs:
        job.wait()
    return jobs


if __name__ == "__main__":
    first, *_ = submit(
        "sweep",
        ("deep", dict(lr=0.1, model={"act": "relu", "dim": 64}, loss=0.5)),  # 1
        ("deep", dict(lr=0.01, model={"act": "gelu", "dim": 128}, loss=0.25, note="it's")),  # 2
        ("flat", dict(lr=0.001, model={"act": "relu", "dim": 8}, shuffle=False)),  # 3
        ("flat", dict(lr="auto", model={"act": "relu"}, loss=float("inf"), note="fails")),  # 4
    )
    submit("other", ("deep", dict(lr=0.1, model={}, loss=float("nan"))))  # 5
    first.add_label("paper")
    first.add_label("a, b")
    wl.run_command(["true"], wait=True)  # 6: in no list
    exp = wl.create_experiment("empty")
"""


@pytest.fixture(scope="module")
def sweep_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with five trials, each of which matches another condition."""
    folder = tmp_path_factory.mktemp("where")
    project = Project(folder / "project")
    project.write("sweep.py", PROGRAM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINDLASS_HOME", str(folder / "wl"))
        done = project.python("sweep.py")
    assert done.returncode == 0, done.stderr
    yield folder / "wl"
    stop_server(folder / "wl")


@pytest.fixture
def in_sweep_home(sweep_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_HOME", str(sweep_home))


def ids(**options: object) -> list[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [trial.id for trial in wl.list_trials(**options)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("hparams.lr < 0.1", [2, 3]),
        ("hparams.lr <= 0.1", [1, 2, 3, 5]),
        ("params.lr = 0.1 and experiment = 'sweep'", [1]),
        ("hparams.lr != 0.1", [2, 3, 4]),
        ("hparams.lr = 'auto'", [4]),
        ("hparams.lr in (0.1, 'auto')", [1, 4, 5]),
        ("hparams.lr not in (0.1, 'auto')", [2, 3]),
        ("hparams.model.act = relu", [1, 3, 4]),
        ("hparams.model.act contains 'el'", [1, 2, 3, 4]),
        ("hparams.model.act like 'G%'", [2]),
        ("hparams.model.dim > 8 and hparams.model.dim < 128", [1]),
        ("hparams.model.dim is null", [4, 5]),
        ("not hparams.model.dim >= 64", [3, 4, 5]),
        ("hparams.shuffle = true", [1, 2, 4, 5]),
        ("hparams.shuffle != true", [3]),
        ("hparams.shuffle = 0", [3]),
        ("hparams.note = null", [1, 3, 5]),
        ("hparams.note != null", [2, 4]),
        ("hparams.note = 'it''s'", [2]),
        ('hparams.note = "it\'s"', [2]),
        ("metrics.loss < 0.5", [2]),
        ("metrics.loss.max <= 1.0", [1, 2]),
        ("metrics.loss.min = inf", [4]),
        ("metrics.loss.mean < inf", [1, 2]),
        ("metrics.loss.count = 2", [1, 2, 4, 5]),
        ("metrics.loss = null", [3]),
        ("metrics.loss is not null", [1, 2, 4, 5]),
        ("metrics.loss = nan", [5]),
        ("metrics.loss is nan", [5]),
        ("metrics.loss is not NaN", [1, 2, 4]),
        ("metrics.loss != nan", [1, 2, 4]),
        ("not metrics.loss = nan", [1, 2, 3, 4]),
        ("metrics.loss = nan or metrics.loss is null", [3, 5]),
        ("metrics.loss.count = null", [3]),
        ("metrics.val/loss.min < 1.0", [2]),
        ('metrics."val/loss".last = 2.0', [1]),
        ("metrics.`val/loss` > 1 and metrics.loss in (0.25, 0.5)", [1]),
        ("state = 'FAILED'", [4]),
        ("state != succeeded", [4]),
        ("state in (FAILED, STOPPED) or name = 'flat'", [3, 4]),
        ("(name = 'flat' or name = 'deep') and not (id = 1 or id >= 4)", [2, 3]),
        ("labels contains 'paper'", [1]),
        ("'a, b' in labels", [1]),
        ("labels != 'paper'", [2, 3, 4, 5]),
        ("labels like 'pap%'", [1]),
        ("experiment != 'sweep'", [5]),
        ("experiment = 2 or experiment contains 'swe' and id < 2", [1, 5]),
        ("project = 'default' and id = 3", [3]),
        ("project != default", []),
        ("created > 2d ago and id > 3", [4, 5]),
        ("created < '2001-01-01' or ended < 2001-01-01T10:00", []),
        ("duration < 1h and duration >= 0ms and started is not null and id = 5", [5]),
        ("kind = 'command'", [6]),
        ("kind in (job, command) and id > 4", [5, 6]),
    ],
)  # fmt: skip
def test_where_returns_the_matching_trials(
    in_sweep_home: None, where: str, expected: list[int]
) -> None:
    assert ids(where=where) == expected


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("hparams.lr", [3, 2, 1, 5, 4]),  # numbers, then texts
        ("-hparams.lr", [5, 1, 2, 3, 4]),
        ("hparams.model.dim", [3, 1, 2, 4, 5]),  # trials without a value come last
        ("-hparams.model.dim", [2, 1, 3, 5, 4]),
        ("-hparams.model.act", [4, 3, 1, 2, 5]),
        ("metrics.loss", [2, 1, 4, 3, 5]),
        ("-metrics.loss.min", [4, 1, 2, 5, 3]),
        ("metrics.val/loss.count", [1, 2, 4, 5, 3]),
        ("-id", [5, 4, 3, 2, 1]),
        ("-name", [4, 3, 5, 2, 1]),
    ],
)  # fmt: skip
def test_a_list_is_sorted_by_parameters_and_metrics_across_pages(
    in_sweep_home: None, monkeypatch: pytest.MonkeyPatch, sort: str, expected: list[int]
) -> None:
    assert ids(sort_by=sort) == expected
    monkeypatch.setattr("windlass.client.connection.pages._PAGE", 1)  # every row is a cursor once
    assert ids(sort_by=sort) == expected
    assert ids(sort_by=sort, where="id != 3", limit=3) == [e for e in expected if e != 3][:3]


def test_plain_filters_select_by_user_time_and_kind(in_sweep_home: None) -> None:
    user = wl.get_trial(1).provenance.user
    assert ids(user=user) == [1, 2, 3, 4, 5]
    assert ids(user="nobody-else") == []
    assert ids(kind="command") == [6]
    assert ids(kind=["job", "command"], name="deep") == [1, 2, 5]
    second = wl.get_trial(2).created
    assert ids(created_after=second) == [2, 3, 4, 5]
    assert ids(created_before=second) == [1]
    assert ids(created_before=datetime(2100, 1, 1), created_after=date(2001, 1, 1), limit=1) == [1]
    assert ids(created_before=datetime(2001, 1, 1)) == []
    assert ids(created_after="1h", created_before=time.time() + 60) == [1, 2, 3, 4, 5]
    assert ids(created_before="1h") == ids(created_after="2100-01-01") == []
    with pytest.raises(wl.InvalidArgument, match="created_after: 'soon' is not a time"):
        wl.list_trials(created_after="soon")
    with pytest.raises(wl.InvalidArgument, match="There is no kind 'pod'"):
        next(wl.list_trials(kind="pod"))
    assert ids(experiment=2) == ids(experiment="other") == [5]
    assert ids(labels=["paper", "a, b"]) == [1]
    sweep = wl.get_experiment("sweep")
    best = sweep.list_trials(where="metrics.loss < 1", sort_by="metrics.loss", limit=1)
    assert [trial.hparams["lr"] for trial in best] == [0.01]


@pytest.mark.parametrize(
    ("where", "what", "pointed", "hint"),
    [
        ("hparm.lr < 1", "there is no 'hparm'", "^^^^^", "Did you mean hparams?"),
        ("lr < 1", "there is no 'lr'", "^^", "hparams.lr"),
        ("hparams.lr < 1 and stat = 'x'", "there is no 'stat'", " " * 19 + "^^^^", "state"),
        ("state = 'FAILD'", "there is no state 'FAILD'", "^" * 15, "Did you mean FAILED?"),
        ("state < 'FAILED'", "=, != and in", "^" * 16, ""),
        ("hparams.lr <", "a value is missing", " " * 12 + "^", ""),
        ("hparams.lr ~ 3", "'~' is not allowed here", " " * 11 + "^", "quotes"),
        ("name = 'x", "this quote is not closed", " " * 7 + "^", ""),
        ("(id = 3", "this parenthesis is not closed", "^", ""),
        ("id = 3 id = 4", "'id' is not understood here", " " * 7 + "^^", "and, or"),
        ("metrics.loss = 'low'", "metrics.loss is a number", "^" * 20, ""),
        ("metrics.loss contains 'a'", "is a number: contains is for strings", "^" * 25, ""),
        ("created > 2h", "created is a time", "^" * 12, "2h ago"),
        ("hparams.lr > null", "null can only be compared", "^" * 17, ""),
        ("", "a name is missing here", "^", "hparams.NAME"),
    ],
)
def test_a_syntax_error_in_where_is_marked(
    in_sweep_home: None, where: str, what: str, pointed: str, hint: str
) -> None:
    if not where:
        where = " "
    with pytest.raises(wl.InvalidArgument) as caught:
        next(wl.list_trials(where=where))
    assert str(caught.value).startswith("where: ")
    assert what in str(caught.value)
    shown, marks, *more = (caught.value.hint or "").splitlines()
    assert shown == where
    assert marks.lstrip() == pointed.lstrip()
    assert hint in " ".join(more)


def test_the_size_of_a_where_clause_is_limited(in_sweep_home: None) -> None:
    for where, what in (
        (" and ".join(["id = 1"] * 101), "more than 100 comparisons"),
        ("(" * 60 + "id = 1" + ")" * 60, "more than 50 nested levels"),
        ("not " * 60 + "id = 1", "more than 50 nested levels"),
        (f"id in ({', '.join(['1'] * 1500)})", "more than 1000 values"),
        ("id = 1 " + " " * 20_000, "10000"),
    ):
        with pytest.raises(wl.InvalidArgument, match=what):
            next(wl.list_trials(where=where))
    assert ids(where=" or ".join(["id = 1"] * 100)) == [1]


def test_values_are_never_read_as_sql(in_sweep_home: None) -> None:
    for text in ("x' OR 1=1 --", "'; DROP TABLE trials; --", "%", "\x01", "{}", "?", ":p0"):
        quoted = text.replace("'", "''")
        for name in ("name", "user", "hparams.note", "experiment", "labels"):
            assert ids(where=f"{name} = '{quoted}' and id > 0") == []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            odd = '"' + text.replace('"', '""') + '"'
            assert list(wl.list_trials(where=f"hparams.{odd} = 1 or metrics.{odd} = 1")) == []
            with pytest.raises(wl.InvalidArgument, match="No trial has a parameter"):
                next(wl.list_trials(sort_by=f"hparams.{odd}"))


def test_an_unknown_name_in_where_warns_with_a_suggestion(in_sweep_home: None) -> None:
    with pytest.warns(UserWarning, match="parameter 'lrr'. Did you mean hparams.lr"):
        assert list(wl.list_trials(where="hparams.lrr < 1")) == []
    with pytest.warns(UserWarning, match="No trial has a metric 'los'. Did you mean metrics.loss"):
        assert list(wl.list_trials(where="metrics.los.min < 1")) == []


def test_a_number_in_quotes_is_a_text_and_warns(in_sweep_home: None) -> None:
    with pytest.warns(UserWarning, match=r"'lr' is a number.*Remove the quotes: hparams.lr = 0"):
        assert list(wl.list_trials(where="params.lr = '0.1'")) == []
    with pytest.warns(UserWarning, match="'lr' is a number"):
        assert list(wl.search_logs("x", where="params.lr in ('0.1', '7')")) == []


def test_an_error_of_where_names_the_field_as_written(in_sweep_home: None) -> None:
    for where, message in (
        ("metrics.loss = 'x'", "where: metrics.loss is a number"),
        ("metrics.loss.last = 'x'", "where: metrics.loss.last is a number"),
        ("metrics.loss < nan", "where: nan can only be compared with =, != and is."),
        ("params.lr ~ 3", "'~' is not allowed here"),
        ("params.lr 3", "where: after params.lr a comparison must follow"),
    ):
        with pytest.raises(wl.InvalidArgument) as refused:
            next(wl.list_trials(where=where))
        assert message in str(refused.value)


def test_a_minus_sign_sets_the_sort_direction_and_words_are_refused(in_sweep_home: None) -> None:
    for wrong, message in (
        ("metrics.loss desc", "Write '-metrics.loss'; a leading - means descending order."),
        ("loss DESC", "Write '-loss'"),
        ("created asc", "Write 'created'"),
    ):
        with pytest.raises(wl.InvalidArgument) as refused:
            next(wl.list_trials(sort_by=wrong))
        assert message in str(refused.value)
    with pytest.raises(wl.InvalidArgument, match="Write '-created'"):
        next(wl.list_experiments(sort_by="created desc"))
    listed: list[Callable[..., object]] = [wl.list_trials, wl.list_checkpoints, wl.list_models]
    for line in listed:
        with pytest.raises(wl.InvalidArgument, match="write one name as a string"):
            line(sort_by=["metrics.loss"])


def test_an_ungrouped_name_suggests_the_grouped_metric(fresh_home: Path) -> None:
    (fresh_home.parent / "weights").write_text("1")
    with wl.start_trial("grouped", experiment="grouped"):
        wl.report(1, group="validation", accuracy=0.5)
        wl.save_checkpoint(fresh_home.parent / "weights", step=1)
    experiment = wl.get_experiment("grouped")
    meant = r"Did you mean 'validation/accuracy'\?"
    for ask in (
        lambda: next(wl.list_trials(sort_by="accuracy")),
        lambda: next(wl.list_checkpoints(trial=1, sort_by="acc")),
    ):
        with pytest.raises(wl.InvalidArgument, match=meant):
            ask()
    with pytest.raises(wl.NotFound, match=meant):
        experiment.best("accuracy", "max")


def test_a_trial_has_a_kind(in_sweep_home: None) -> None:
    assert {trial.kind for trial in wl.list_trials()} == {"job"}
    [command] = wl.list_trials(kind="command")
    assert (command.kind, command.id) == ("command", 6)  # all kinds share one sequence of ids


def test_sorting_by_an_unknown_name_is_refused(in_sweep_home: None) -> None:
    for wrong, meant in (
        ("-metrics.los.min", "metric 'los'.\n  Did you mean metrics.loss?"),
        ("hparams.lrr", "parameter 'lrr'.\n  Did you mean hparams.lr?"),
        ("metrics.something", "metric 'something'.\n  The names are: "),
    ):
        with pytest.raises(wl.InvalidArgument) as refused:
            next(wl.list_trials(sort_by=wrong))
        assert f"Cannot sort by {wrong.removeprefix('-')}. No trial has a " in str(refused.value)
        assert meant in str(refused.value)
    with pytest.raises(wl.InvalidArgument, match="No trial has a metric"):
        next(wl.get_experiment("sweep").list_trials(sort_by="metrics.los"))


def test_sort_keys_have_the_same_names_everywhere(in_sweep_home: None, project: Project) -> None:
    def windlass(*words: str) -> list[str]:
        done = project.run(BIN / "windlass", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    for long, short in (
        ("metrics.val/loss", "val/loss"),
        ("-metrics.val/loss.min", "-val/loss.min"),
    ):
        in_order = ids(sort_by=long)
        assert ids(sort_by=short) == in_order != sorted(in_order)
        listed = [windlass("ls", f"--sort={order}") for order in (long, short)]
        assert [head for head, *_ in listed] == 2 * [listed[0][0]]  # the metric has its column
        for _head, *rows in listed:
            assert [int(row.split()[0]) for row in rows] == in_order
        table = list(wl.get_experiment("sweep").table(sort_by=long)["id"])
        assert table == list(wl.get_experiment("sweep").table(sort_by=short)["id"])
        assert table == [trial_id for trial_id in in_order if trial_id in table]
        compared = [
            windlass("compare", *map(str, in_order), f"--sort={order}") for order in (long, short)
        ]
        assert compared[0] == compared[1]
    by_rate = ids(sort_by="hparams.lr")
    assert list(wl.compare(ids(sort_by="id"), sort_by="hparams.lr")["id"]) == by_rate
    assert list(wl.compare(ids(sort_by="id"), sort_by="lr")["id"]) == by_rate
    with pytest.raises(wl.InvalidArgument, match=r"Did you mean hparams\.lr\?"):
        next(wl.list_trials(sort_by="lr"))
    with pytest.raises(wl.InvalidArgument, match="Did you mean 'loss'"):
        next(wl.list_trials(sort_by="los"))


def test_a_condition_on_an_unreported_metric_is_accepted(fresh_home: Path) -> None:
    """A query for a future metric is valid."""
    with pytest.warns(UserWarning, match="No trial has a metric 'loss'"):
        assert list(wl.list_trials(sort_by="metrics.loss")) == []


def test_a_list_can_be_iterated_in_asynchronous_code(
    in_sweep_home: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.client.connection.pages._PAGE", 2)

    async def walk() -> list[int]:
        return [trial.id async for trial in wl.list_trials(sort_by="-id")]

    async def both() -> tuple[list[int], list[int], list[str]]:
        sweep = wl.get_experiment("sweep")
        names = [experiment.name async for experiment in wl.list_experiments()]
        first, second = await asyncio.gather(walk(), walk())
        assert [trial.id async for trial in sweep.list_trials(limit=3)] == [1, 2, 3]
        for empty in (wl.list_queue(), wl.list_models(), wl.list_templates()):
            assert [point async for point in empty] == []
        assert [task.name async for task in wl.get_trial(1).list_tasks()] == ["main-0"]
        return first, second, names

    assert asyncio.run(both()) == ([5, 4, 3, 2, 1], [5, 4, 3, 2, 1], ["sweep", "other", "empty"])


def test_a_cancelled_iteration_continues_at_its_position(
    in_sweep_home: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.client.connection.pages._PAGE", 1)

    async def walk() -> list[int]:
        trials, seen = wl.list_trials(), []
        while True:
            step = asyncio.ensure_future(trials.__anext__())
            await asyncio.sleep(0)  # the page is requested
            step.cancel()
            await asyncio.wait([step])
            try:
                seen.append((await trials.__anext__()).id)
            except StopAsyncIteration:
                return seen

    assert asyncio.run(walk()) == [1, 2, 3, 4, 5]


def test_experiments_are_found_by_state_and_user(in_sweep_home: None) -> None:
    def names(**options: object) -> list[str]:
        return [experiment.name for experiment in wl.list_experiments(**options)]  # type: ignore[arg-type]

    assert names(state="FAILED") == ["sweep"]
    assert names(state="succeeded") == ["other"]
    assert names(state=["EMPTY", "FAILED"], sort_by="-id") == ["empty", "sweep"]
    assert names(state="RUNNING") == names(state="STOPPED") == []
    assert names(user=wl.get_trial(1).provenance.user) == ["sweep", "other"]
    assert names(user="nobody-else") == []
    with pytest.raises(wl.InvalidArgument, match="There is no experiment state 'ASLEEP'"):
        names(state="asleep")
    with wl.get_experiment("empty"):
        assert names(state="RUNNING") == ["empty"], "somebody builds it"
        assert names(state="EMPTY") == []
    assert names(state="EMPTY") == ["empty"]


def test_a_missing_object_raises_not_found_with_a_suggestion(in_sweep_home: None) -> None:
    for ask, message, hint in (
        (lambda: wl.get_trial(99), "There is no trial 99.", "The newest trial is 5."),
        (lambda: wl.get_experiment("sweeep"), "no experiment 'sweeep'", "Did you mean 'sweep'?"),
        (lambda: wl.get_experiment(99), "There is no experiment 99.", "newest experiment is 3"),
    ):
        with pytest.raises(wl.NotFound) as caught:
            ask()
        assert message in str(caught.value)
        assert hint in (caught.value.hint or "")


def test_the_command_line_filters_and_sorts(in_sweep_home: None, tmp_path: Path) -> None:
    shell = Project(tmp_path / "shell")

    def listed(*args: str) -> list[str]:
        done = shell.run(BIN / "windlass", "ls", *args)
        assert done.returncode == 0, done.stderr
        return [line.split()[0] for line in done.stdout.splitlines()[1:]]

    assert listed("--where", "hparams.lr < 0.1 and state = SUCCEEDED") == ["3", "2"]
    assert listed("-w", "metrics.loss.min < 1", "--sort", "metrics.loss.min") == ["2", "1"]
    by_loss = shell.run(BIN / "windlass", "ls", "--sort", "-metrics.loss.min").stdout.splitlines()
    at = by_loss[0].index("LOSS MIN")
    cells = [line[at : at + len("LOSS MIN")].strip() for line in by_loss[1:]]
    assert cells[:3] == ["inf", "0.5", "0.25"]
    assert set(cells[3:]) == {"-"}  # trials without a report come last
    assert listed("--kind", "command") == ["6"]
    assert listed("--since", "1h", "-e", "other") == ["5"]
    assert listed("--experiments", "--state", "failed") == ["1"]
    none = shell.run(BIN / "windlass", "ls", "-w", "hparams.lrr < 1")
    assert "Did you mean hparams.lr?" in none.stdout + none.stderr
    wrong = shell.run(BIN / "windlass", "ls", "-w", "hparams.lr << 1")
    assert wrong.returncode != 0
    assert "^" in wrong.stderr
