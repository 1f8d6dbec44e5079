"""If the server dies at any step between a decision and its execution, nothing runs twice."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos_seed import Chaos

import windlass as wl
from harness import PATIENCE, stop_server
from replicas import LITTLE, check_gone, exit_codes, reasons, shell
from server_with_faults import start_rigged

pytestmark = pytest.mark.thorough

# Each process writes its attempt. One of three fails at first, and starts again.
MARK = 'echo "$WINDLASS_ROLE-$WINDLASS_INDEX.$WINDLASS_ATTEMPT" >> "$1"; '
FAIL_ONCE = "[ $WINDLASS_INDEX.$WINDLASS_ATTEMPT != 1.1 ] || exit 143"
# Each of four attempts is recorded before and after its start, and three changes of the status are
# stored: the start, the restart and the end. A change in between may be stored with the next one.
FEWEST_STEPS = 14


@pytest.mark.case(10)
def test_a_server_killed_at_any_step_from_decision_to_process_starts_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chaos: Chaos
) -> None:
    once = dict.fromkeys(["main-0.1", "main-1.1", "main-1.2", "main-2.1"], 1)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    for step in _steps(chaos):
        home, marks = tmp_path / f"home-{step}", tmp_path / f"marks-{step}"
        monkeypatch.setenv("WINDLASS_HOME", str(home))
        server = start_rigged(home, f"die:{step}")
        try:
            trial = wl.Job(
                shell(MARK + FAIL_ONCE, marks),
                executor=LITTLE,
                replicas=3,
                restart_policy="ExitCode",
            ).submit()
            trial.wait(timeout=PATIENCE)  # which starts the next server, if this one died
            assert trial.state == "SUCCEEDED", (step, trial.message)
            assert Counter(marks.read_text().split()) == once, step
            assert exit_codes(trial, "main-1") == [143, 0], step
            assert trial.restarts == 1, step
            assert reasons(trial).count("ReplicaRestarting") == 1, step
            assert reasons(trial).count("ReplicaStarting") == len(trial.attempts) == 4, step
            check_gone(trial)
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
