"""The examples that need only Windlass and NumPy, run as a reader runs them."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass as wl
from harness import Project, eventually, stop_trials

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def examples(project: Project, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project with the examples, which is the working directory during a test."""
    for path in EXAMPLES.glob("*.py"):
        shutil.copy(path, project.path)
    monkeypatch.chdir(project.path)
    monkeypatch.setenv("WINDLASS_CPUS", "4")
    yield project
    stop_trials(home)


def shown_in(name: str) -> list[str]:
    """The output that an example shows at its top, after the command."""
    text = ast.get_docstring(ast.parse((EXAMPLES / name).read_text())) or ""
    blocks = re.findall(r"(?:^    .*\n?)+", text, re.MULTILINE)
    return inspect.cleandoc(blocks[-1]).splitlines()


def run(examples: Project, *words: str) -> list[str]:
    done = examples.python(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_the_framework_of_ten_lines_prints_the_output_it_shows(examples: Project) -> None:
    assert run(examples, "framework.py") == shown_in("framework.py")
    functions = ast.parse((EXAMPLES / "framework.py").read_text()).body
    [framework] = [
        function for function in functions if getattr(function, "name", "") == "tournament"
    ]
    code = [node for node in ast.walk(framework) if isinstance(node, ast.stmt)]
    assert len(code) - 2 == 10  # without its header and its docstring


def test_the_sweep_ends_with_the_table_it_shows(examples: Project) -> None:
    def points(lines: list[str]) -> dict[str, float]:
        rows = [line.partition("SUCCEEDED")[2].split()[1:] for line in lines]
        return {f"{float(row[0])} {row[1]}": float(row[2]) for row in rows if row}

    shown, printed = points(shown_in("sweep.py")), points(run(examples, "sweep.py"))
    assert len(shown) == 6
    assert printed == pytest.approx(shown, abs=0.02)  # builds of NumPy differ in the order of sums
    assert list(printed.values()) == sorted(printed.values(), reverse=True)


def test_the_generator_continues_promising_trials(examples: Project) -> None:
    assert run(examples, "generator.py") == shown_in("generator.py")


@pytest.mark.parametrize(("name", "trials"), [("sweep.py", 6), ("generator.py", 4)])
def test_a_dry_run_of_an_example_runs_nothing(
    name: str, trials: int, examples: Project, tmp_path: Path
) -> None:
    env = {"WINDLASS_HOME": str(tmp_path / "untouched")}
    done = examples.python(name, "--dry-run", env=env)
    assert done.returncode == 0, done.stderr
    assert "nothing was started" in done.stdout
    assert len(re.findall(r"command +\w+\.\w+\(lr=", done.stdout)) == trials
    assert os.listdir(tmp_path / "untouched") == ["cache"]


@pytest.mark.thorough
def test_the_search_ends_trials_that_fall_behind(examples: Project) -> None:
    counts, epochs, best = run(examples, "search_asha.py")
    numbers_by_how = {
        how: int(number) for number, how in re.findall(r"(\d+) (complete|pruned)", counts)
    }
    assert sum(numbers_by_how.values()) == 24
    assert numbers_by_how["pruned"] > numbers_by_how["complete"] > 0
    [trained, whole] = map(int, re.findall(r"\d+", epochs))
    assert whole == 24 * 20
    # The number of further pruned trials depends on how far each trial is when another one asks.
    assert trained <= whole - numbers_by_how["pruned"]
    assert float(best.rpartition(" ")[2]) < 0.25  # a training that learns nothing has 0.69
    [shown] = [line for line in shown_in("search_asha.py") if "of 480 epochs" in line]
    assert re.sub(r"^\d+", "", shown) == re.sub(r"^\d+", "", epochs)
    experiment = next(wl.list_experiments(name="logistic"))
    again = run(examples, "search_asha.py", str(experiment.id))
    assert again == [counts, epochs, best], "all of it is known"
    assert experiment.refresh().trial_count == 24


# -- a learner with actors ------------------------------------------------------------


def returns(lines: list[str]) -> dict[int, float]:
    """The returns that the learner logs, by update."""
    reported = [re.search(r"update +(\d+) +return +([\d.]+)", line) for line in lines]
    return {int(point[1]): float(point[2]) for point in reported if point}


@pytest.mark.thorough
def test_the_learner_learns_from_the_games_of_its_actors(examples: Project) -> None:
    lines = run(examples, "actors.py", "--actors", "2", "--updates", "40")
    assert lines[-1] == "SUCCEEDED"
    assert {line for line in lines if line.endswith("is here")} == {
        f"learner-0 | actor {index}, attempt 1 is here" for index in (0, 1)
    }
    reported = returns(lines)
    # Pushing in either direction keeps the pole up for about 20 steps of at most 200.
    assert list(reported) == [1, 10, 20, 30, 40]
    assert reported[1] < 60 and max(reported.values()) > 120
    assert reported[40] > 2 * reported[1]


@pytest.mark.thorough
def test_the_learner_recovers_when_an_actor_or_the_learner_is_killed(examples: Project) -> None:
    """The learner is stopped after all kills and restarts, so speed does not matter."""
    examples.write(
        "launch.py",
        "import actors\nprint(actors.group(actors=2, updates=1_000_000).submit().id)",
    )
    trial = wl.get_trial(int(run(examples, "launch.py")[0]))

    def reported() -> list[str]:
        return [str(line) for line in trial.logs(role="learner")]

    eventually(lambda: 10 in returns(reported()), "it has learned a little")
    kill(trial, "actor-1")
    eventually(lambda: "actor 1, attempt 2 is here" in reported(), "the actor is back")
    before = max(returns(reported()))
    kill(trial, "learner-0")
    eventually(lambda: max(returns(reported())) > before + 20, "it goes on from its checkpoint")
    again = "actor 0, attempt 1 is here"
    eventually(lambda: reported().count(again) == 2, "it has met the other actor once more")

    trial.ask_to_stop().wait()
    assert trial.state == "SUCCEEDED", trial.message
    assert trial.restarts == 2
    summary = trial.summary_metrics["mean_return"]
    assert summary.min is not None and summary.max is not None
    assert summary.min < 60 and summary.max > 120


def kill(trial: wl.Trial[object], replica: str) -> None:
    """Kill the process of a replica's first attempt, and no other process of it."""
    state = Path(trial.refresh().directory) / replica / "1" / "state.json"
    os.kill(json.loads(state.read_text())["process"]["pid"], signal.SIGKILL)
