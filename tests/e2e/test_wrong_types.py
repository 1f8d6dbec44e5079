"""Whatever is given instead of what was meant: one of our own errors says so, in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import windlass as wl

ODD: list[Any] = [
    0.5, math.nan, True, b"x", object(), {"a": 1}, [None], "\x00", "\ud800", "\u202e", "a\nb",
    "x" * 10_240, 2**70, -1,
]  # fmt: skip

QUESTIONS: list[Callable[[Any], Any]] = [
    lambda odd: list(wl.list_trials(limit=odd)),
    lambda odd: list(wl.list_trials(state=odd)),
    lambda odd: list(wl.list_trials(kind=odd)),
    lambda odd: list(wl.list_trials(where=odd)),
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


@pytest.mark.parametrize("ask", QUESTIONS)
def test_what_makes_no_sense_is_refused_in_words(ask: Callable[[Any], Any]) -> None:
    for odd in ODD:
        try:
            ask(odd)
        except wl.WindlassError as error:
            assert error.message.strip()
            assert "fault of its own" not in error.message


def test_a_missing_metric_is_not_found() -> None:
    with wl.start_trial("notebook") as trial:
        wl.report(1, loss=0.5)
    with pytest.raises(wl.NotFound, match="It has: loss"):
        trial.refresh().summary_metrics["los"]
    with pytest.raises(KeyError):
        trial.summary_metrics["los"]


def test_a_wrong_duration_is_one_of_our_errors() -> None:
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


def test_a_folder_that_no_system_could_have_is_refused() -> None:
    with wl.start_trial("notebook") as trial:
        pass
    for odd in (None, 3, "", "a\0b", "\ud800", b"x"):
        for download in (trial.download_code, trial.download_artifacts, trial.download_tensorboard):
            with pytest.raises(wl.InvalidArgument, match="is no folder"):
                download(odd)
