"""If the server dies at any step of a batch of submissions, each trial exists and runs once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos_seed import Chaos

import windlass as wl
from harness import PATIENCE, Project, stop_server
from server_with_faults import start_rigged

pytestmark = pytest.mark.thorough

AUTHOR = """
import sys
import windlass as wl

@wl.run(cpus=0.2)
def double(number):
    with open(MARKS, "a") as marks:
        print(number, file=marks)
    return 2 * number

MARKS = sys.argv[1]
values = list(double.map(range(3)))
exp = wl.create_experiment("many")
numbers = [{"number": number} for number in (3, 4)]
trials = exp.add_many(double, numbers, identities=["three", "four"])
again = exp.add_many(double, numbers, identities=["three", "four"])
assert [trial.id for trial in trials] == [trial.id for trial in again]
print([*values, *(trial.result() for trial in trials)])
"""
FEWEST_STEPS = 20


@pytest.mark.case(10)
def test_a_server_killed_at_any_step_of_a_batch_loses_and_repeats_no_trial(
    tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch, chaos: Chaos
) -> None:
    project.write("author.py", AUTHOR)
    for step in _steps(chaos):
        home, marks = tmp_path / f"home-{step}", tmp_path / f"marks-{step}"
        monkeypatch.setenv("WINDLASS_HOME", str(home))
        server = start_rigged(home, f"die-submitting:{step}")
        try:
            built = project.python("author.py", marks)
            assert built.returncode == 0, (step, built.stderr)
            assert built.stdout == "[0, 2, 4, 6, 8]\n", step
            assert Counter(marks.read_text().split()) == dict.fromkeys("01234", 1), step
            states = [trial.state for trial in wl.list_trials()]
            assert states == ["SUCCEEDED"] * 5, step
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
