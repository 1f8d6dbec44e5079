"""Progress of a search: a table in a terminal, lines in a pipe, and clear errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass as wl
from harness import Project, stop_trials
from pseudo_terminal import Terminal
from windlass.installation import extra_hint

SHARES_HOME = True

SCRIPT = """
import os, sys, time
import windlass as wl

@wl.run(cpus=0.1)
def train(x, gate):
    wl.report(1, loss=x)
    while x > 1 and not os.path.exists(gate):
        time.sleep(0.01)

if __name__ == "__main__":
    found = wl.create_experiment("seen").search(
        train, space={"x": wl.randint(1, 4)}, metric="loss", method="grid", concurrent=2,
        args={"gate": sys.argv[1]},
    )
"""


@pytest.fixture
def clean(home: Path) -> Iterator[Path]:
    yield home
    stop_trials(home)


def test_a_terminal_shows_a_table_during_a_search_and_its_result(
    clean: Path, project: Project, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    terminal = Terminal(project, project.write("search.py", SCRIPT), gate, columns=90)
    head = terminal.wait_for("1 of 4 trials: 2 running, 1 complete")
    assert head.startswith("search 'search'")
    assert "left" in head
    assert "x=1" in terminal.wait_for("best: loss 1")
    terminal.wait_until(lambda lines: _running_values(lines) == ["2", "3"])
    gate.touch()
    terminal.wait_for("Search 'search': 4 trials: 4 complete.")
    terminal.wait_for("x = 1")
    assert terminal.finish() == 0
    assert not any("running" in line for line in terminal.lines), "the table is wiped"


def _running_values(lines: list[str]) -> list[str]:
    """The values of x in the rows of running trials."""
    return [line.split()[-1] for line in lines if "running" in line and "trials" not in line]


def test_in_a_narrow_terminal_a_long_name_is_cut_before_the_counts(
    clean: Path, project: Project, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    named = SCRIPT.replace("concurrent=2", "concurrent=2, name='depth-and-width-of-the-network'")
    terminal = Terminal(project, project.write("search.py", named), gate, columns=60)
    head = terminal.wait_for("…  1 of 4 trials: 2 running, 1 complete")
    assert head.startswith("search 'depth-and-…")
    gate.touch()
    terminal.wait_for("Search 'depth-and-width-of-the-network': 4 trials")
    assert terminal.finish() == 0


def test_a_pipe_gets_a_line_for_each_trial_and_the_result(
    clean: Path, project: Project, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    done = project.python(project.write("search.py", SCRIPT), gate)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]
    assert lines[4] == "Search 'search': 4 trials: 4 complete."
    assert "\x1b" not in done.stderr


def test_without_optuna_the_error_names_the_package_to_install(
    clean: Path, project: Project
) -> None:
    path = project.write(
        "search.py",
        """
        import sys
        sys.modules["optuna"] = None
        import windlass as wl

        wl.create_experiment("none").search(
            wl.run(lambda x: x), space={"x": wl.uniform(0, 1)}, metric="loss"
        )
        """,
    )
    done = project.python(path)
    assert done.returncode == 1
    assert "windlass.Unsupported: A search needs Optuna" in done.stderr
    assert extra_hint("search", "") in done.stderr


def test_optuna_is_not_loaded_before_a_search_starts(project: Project) -> None:
    code = (
        "import sys, windlass as wl\n"
        "wl.uniform(0, 1), wl.choice(1, 2), wl.Experiment.search, wl.SearchResult\n"
        "print('optuna' in sys.modules, 'numpy' in sys.modules)"
    )
    done = project.python("-c", code)
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_an_auxiliary_trial_lives_as_long_as_the_search(
    clean: Path, project: Project, tmp_path: Path
) -> None:
    """Between two trials nothing of the experiment runs.

    The search holds the experiment meanwhile.
    """
    score = wl.run(lambda x: x, cpus=0.1)
    experiment = wl.create_experiment("watched")
    watcher = experiment.add(
        wl.Job(wl.Command(["sleep", "1000"]), executor=wl.Local(cpus=0.1)), auxiliary=True
    )
    experiment.search(score, space={"x": wl.uniform(0, 1)}, metric="v", trials=4, concurrent=1)
    assert watcher.wait(60).state == "STOPPED"
    others = [trial for trial in experiment.list_trials() if trial != watcher]
    last = max(trial.record.ended or 0.0 for trial in others)
    assert watcher.record.ended is not None
    assert watcher.record.ended >= last
