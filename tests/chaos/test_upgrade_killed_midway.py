"""A server dies before any statement of bringing a database to its version."""

from __future__ import annotations

import itertools
import shutil
import signal
from pathlib import Path

from chance import Chaos
from upgrading import Upgrader, upgrading

from earlier import EARLIER, contents_of, make_database

FEWEST_STEPS = 50  # from the first revision on


def test_an_upgrade_killed_before_any_statement_has_done_all_or_nothing(
    chaos: Chaos, tmp_path: Path
) -> None:
    with upgrading() as upgrader:
        # From the first revision on, an upgrade runs the statements of them all.
        revisions = EARLIER if chaos.long else (EARLIER[0], EARLIER[-1])
        steps = [steps_of(upgrader, tmp_path / revision, revision) for revision in revisions]
    print("steps:", steps)
    assert steps[0] >= FEWEST_STEPS


def steps_of(upgrader: Upgrader, folder: Path, revision: str) -> int:
    """Kill an upgrade at each of its steps, until it comes through; how many those were."""
    folder.mkdir()
    path, uncut = folder / "windlass.db", folder / "uncut.db"
    make_database(path, revision)
    shutil.copy(path, uncut)
    assert upgrader.open(uncut, 0) == 0
    before, after = contents_of(path), contents_of(uncut)
    assert before != after
    # One database: each upgrade begins with what was left by the one that was killed before it.
    for step in itertools.count(1):
        code = upgrader.open(path, step)
        if code == 0:
            break
        assert code == -signal.SIGKILL, f"from {revision}, step {step}"
        assert contents_of(path) == before, f"from {revision}, step {step}"
    assert contents_of(path) == after, revision
    return step - 1
