"""Invalid arguments of any type raise a Windlass error with a clear message."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import windlass as wl

SHARES_HOME = True

ODD: list[Any] = [
    0.5, math.nan, True, b"x", object(), {"a": 1}, [None], "\x00", "\ud800", "\u202e", "a\nb",
    "x" * 10_240, 2**70, -1,
]  # fmt: skip

QUESTIONS: list[Callable[[Any], Any]] = [
    lambda odd: list(wl.list_trials(limit=odd)),
    lambda odd: list(wl.list_trials(state=odd)),
    lambda odd: list(wl.list_trials(kind=odd)),
    lambda odd: list(wl.list_trials(where=odd)),
    lambda odd: list(wl.list_trials(experiment=odd)),
    lambda odd: list(wl.list_trials(project=odd)),
    lambda odd: list(wl.list_trials(sort_by=odd)),
    lambda odd: list(wl.list_experiments(project=odd)),
    lambda odd: list(wl.list_models(project=odd)),
    lambda odd: list(wl.list_projects(workspace=odd)),
    lambda odd: list(wl.list_checkpoints(trial=odd)),
    lambda odd: list(wl.search_logs("x", experiment=odd)),
    lambda odd: wl.get_experiment("x", project=odd),
    lambda odd: list(wl.list_experiments(state=odd, limit=odd)),
    lambda odd: list(wl.list_commands(state=odd)),
    lambda odd: list(wl.list_shells(limit=odd)),
    lambda odd: list(wl.list_models(limit=odd, sort_by=odd)),
    lambda odd: list(wl.list_queue(limit=odd)),
    lambda odd: list(wl.search_logs("a", limit=odd)),
    lambda odd: list(wl.search_logs("a", experiment=odd)),
    lambda odd: list(wl.search_logs("a", trials=odd)),
    lambda odd: list(wl.search_logs("a", trials=[odd])),
    lambda odd: list(wl.get_metrics(odd, "loss")),
    lambda odd: wl.gc(older_than=odd, dry_run=True),
    lambda odd: wl.get_model(odd),
    lambda odd: wl.get_template(odd),
    lambda odd: wl.get_workspace(odd),
    lambda odd: wl.get_project(odd),
    lambda odd: wl.get_checkpoint(odd),
    lambda odd: wl.get_shell(odd),
    lambda odd: wl.create_model("m", exist_ok=True).get_version(odd),
    lambda odd: wl.create_model("m", exist_ok=True).remove_metadata(odd),
    lambda odd: wl.create_model("m", exist_ok=True).add_metadata(a=odd),
]


@pytest.fixture(autouse=True)
def own_home(home: Path) -> None:
    """Keep the tests away from the user's own server."""


@pytest.mark.parametrize("ask", QUESTIONS)
def test_an_invalid_argument_raises_a_windlass_error_with_a_message(
    ask: Callable[[Any], Any],
) -> None:
    for odd in ODD:
        try:
            ask(odd)
        except wl.WindlassError as error:
            assert error.message.strip()
            assert "an internal error" not in error.message


def test_a_missing_metric_is_not_found() -> None:
    with wl.start_trial("notebook") as trial:
        wl.report(1, loss=0.5)
    with pytest.raises(wl.NotFound, match="It has: loss"):
        trial.refresh().summary_metrics["los"]
    with pytest.raises(KeyError):
        trial.summary_metrics["los"]


def test_an_invalid_duration_raises_a_windlass_error() -> None:
    command = wl.run_command(["true"]).wait()
    for odd in ("soon", [], True, math.nan, 1e300):
        with pytest.raises(wl.InvalidArgument, match="duration"):
            command.stop(grace=odd)  # type: ignore[arg-type]


def test_only_texts_are_typed_and_only_numbers_are_sizes() -> None:
    shell = wl.open_shell(["cat"])
    try:
        for odd in (3, None, [1], "\ud800", 1.5):
            with pytest.raises(wl.InvalidArgument, match="cannot be typed"):
                shell.send(odd)  # type: ignore[arg-type]
            with pytest.raises(wl.InvalidArgument, match=r"whole number|rows"):
                shell.resize(odd if odd != 3 else 10**9, 80)  # type: ignore[arg-type]
    finally:
        shell.kill()


def test_an_impossible_path_is_refused() -> None:
    with wl.start_trial("notebook") as trial:
        pass
    for odd in (None, 3, "", "a\0b", "\ud800", b"x"):
        for download in (trial.download_code, trial.download_artifacts, trial.download_tensorboard):
            with pytest.raises(wl.InvalidArgument, match="is not a folder"):
                download(odd)


def test_a_type_error_of_python_uses_the_public_name() -> None:
    trial: Any = wl.start_trial("named")
    trial.finish()
    experiment: Any = wl.get_experiment("named")
    invalid_calls: list[tuple[Callable[..., Any], str]] = [
        (wl.list_trials, "Client.list_trials() got an unexpected keyword argument 'order_by'"),
        (wl.Client().list_trials, "Client.list_trials() got"),
        (wl.list_models, "Client.list_models() got"),
        (trial.continue_, "Trial.continue_() got"),
        (trial.stop, "Trial.stop() got"),
        (experiment.wait, "Experiment.wait() got"),
        (experiment.set_config, "Experiment.set_config() got"),
    ]
    for call, message in invalid_calls:
        with pytest.raises((TypeError, wl.InvalidArgument)) as refused:
            call(order_by="loss")
        assert message in str(refused.value)
    for method in (wl.Trial.stop, wl.Client.list_trials, wl.Experiment.wait):
        assert pickle.loads(pickle.dumps(method)) is method
