"""The examples that need nothing beyond Windlass and NumPy, run as a reader runs them."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Project, stop_trials

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def examples(project: Project, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project with the examples in it, where this process works for the time of a test."""
    for path in EXAMPLES.glob("*.py"):
        shutil.copy(path, project.path)
    monkeypatch.chdir(project.path)
    monkeypatch.setenv("WINDLASS_CPUS", "4")
    yield project
    stop_trials(home)


def shown_in(name: str) -> list[str]:
    """The output that an example shows at its top, behind the command that is typed."""
    text = ast.get_docstring(ast.parse((EXAMPLES / name).read_text())) or ""
    blocks = re.findall(r"(?:^    .*\n?)+", text, re.MULTILINE)
    return inspect.cleandoc(blocks[-1]).splitlines()


def run(examples: Project, *words: str) -> list[str]:
    done = examples.python(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_the_framework_of_ten_lines_prints_what_it_says(examples: Project) -> None:
    assert run(examples, "framework.py") == shown_in("framework.py")
    functions = ast.parse((EXAMPLES / "framework.py").read_text()).body
    [framework] = [each for each in functions if getattr(each, "name", "") == "tournament"]
    code = [each for each in ast.walk(framework) if isinstance(each, ast.stmt)]
    assert len(code) - 2 == 10  # without its head and its docstring


# -- a learner with actors ------------------------------------------------------------


def returns(lines: list[str]) -> dict[int, float]:
    """What the learner told of the returns, by update."""
    told = [re.search(r"update +(\d+) +return +([\d.]+)", line) for line in lines]
    return {int(each[1]): float(each[2]) for each in told if each}


def test_the_learner_learns_from_what_its_actors_play(examples: Project) -> None:
    lines = run(examples, "actors.py", "--actors", "2", "--updates", "40")
    assert lines[-1] == "SUCCEEDED"
    assert {line for line in lines if line.endswith("is here")} == {
        f"learner-0 | actor {index}, attempt 1 is here" for index in (0, 1)
    }
    told = returns(lines)
    # Pushing either way the pole stays up for about 20 steps of at most 200.
    assert list(told) == [1, 10, 20, 30, 40]
    assert told[1] < 60 and max(told.values()) > 120
    assert told[40] > 2 * told[1]
