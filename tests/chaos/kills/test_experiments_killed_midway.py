"""An experiment is complete and has no duplicates if the server dies before or after any write."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos_seed import Chaos

import windlass as wl
from harness import PATIENCE, Project, stop_server
from server_with_faults import start_rigged

pytestmark = pytest.mark.thorough

FEWEST_STEPS = 40

AUTHOR = """
import sys
import windlass as wl

little = wl.Local(cpus=0.1)


@wl.run(cpus=0.1)
def score(x):
    wl.report(1, loss=x)


def build(trial, size):
    for place in range(size):
        trial.add(wl.Job(mark, executor=little, name="child"), args=[f"child-{place}"])


with wl.create_experiment("midway", labels=["first"]) as exp:
    script = 'echo "$1" >> "$0"'
    [mark] = exp.package([wl.Command(["sh", "-c", script, sys.argv[1]])])
    one = exp.add(wl.Job(mark, executor=little, name="one"), args=["one"], identity="one")
    exp.add(build, args={"size": 2}, identity="built")
    exp.add_label("second")
    exp.add_link("page", "https://example.org")
    assert exp.add(wl.Job(mark, executor=little), args=["two"], identity="one").id == one.id
    exp.set_notes("done")
    one.wait()
    one.rerun()
exp.search(score, space={"x": wl.choice(1, 2)}, metric="loss", method="grid", concurrent=1)
exp.wait()
"""


def test_a_server_killed_at_any_write_of_an_experiment_loses_and_repeats_no_trial(
    tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch, chaos: Chaos
) -> None:
    project.write("author.py", AUTHOR)
    for step in _steps(chaos):
        home, marks = tmp_path / f"home-{step}", tmp_path / f"marks-{step}"
        monkeypatch.setenv("WINDLASS_HOME", str(home))
        server = start_rigged(home, f"die-writing:{step}")
        try:
            built = project.python("author.py", marks)
            assert built.returncode == 0, (step, built.stderr)
            [exp] = wl.list_experiments()
            trials = [(trial.name, trial.state) for trial in exp.list_trials()]
            names = ["build", "child", "child", "one", "one", "score", "score"]
            assert sorted(trials) == [(name, "SUCCEEDED") for name in names], step
            assert sorted(marks.read_text().split()) == ["child-0", "child-1", "one", "one"], step
            assert (exp.labels, exp.notes) == (("first", "second"), "done"), step
            assert [link.name for link in exp.links] == ["page"], step
            best = exp.best()
            assert (best.params["x"], best.summary_metrics["loss"].count) == (1, 1), step
            was_killed = server.poll() is not None
        finally:
            stop_server(home)
            server.wait(PATIENCE)
        if not was_killed:
            break  # fewer steps than this number: all of them were tried
    assert was_killed or step > FEWEST_STEPS


def _steps(chaos: Chaos) -> Iterator[int]:
    """Return all steps in long runs, some of them in short runs."""
    if chaos.long:
        return itertools.count(1)
    return iter(sorted(chaos.random.sample(range(1, FEWEST_STEPS + 1), 4)))
