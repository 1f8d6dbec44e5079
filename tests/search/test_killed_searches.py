"""Searches continue after their server or author is killed, and no trial runs twice."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE, Project, eventually, kill_server
from windlass.search.settings import Settings
from windlass.search.study import Study

SCRIPT = """
import os, sys, time
import windlass as wl

@wl.run(cpus=0.1)
def train(x, folder):
    "Notes that it ran; from the fourth on it waits to be let go."
    mine = os.path.join(folder, f"ran-{x!r}")
    with open(mine, "a") as file:
        file.write("x")
    wl.report(1, loss=x)
    number = len(os.listdir(folder))
    while number > 3 and not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.01)
    wl.report(2, loss=x / 2)

if __name__ == "__main__":
    name, folder, trials = sys.argv[1], sys.argv[2], int(sys.argv[3])
    experiments = list(wl.list_experiments(name=name))
    experiment = experiments[0] if experiments else wl.create_experiment(name)
    found = experiment.search(
        train, space={"x": wl.uniform(0, 1)}, metric="loss", method=METHOD, trials=trials,
        concurrent=2, seed=11, args={"folder": folder},
    )
    print("found", found.best_params, found.best_value, found.counts)
"""


def script(project: Project, method: str = "random") -> Path:
    return project.write("search.py", SCRIPT.replace("METHOD", repr(method)))


def suggestions(trials: int) -> list[float]:
    """The suggestions of an undisturbed search."""
    space = {"x": wl.uniform(0, 1)}
    settings = Settings(
        space=space, metric="loss", mode="min", method="random", seed=11, trials=trials
    )
    study = Study(settings)
    tried = []
    for _ in range(trials):
        tried.append(study.propose())
        study.begin(tried[-1])
    return [params["x"] for params in tried]


def runs(folder: Path) -> dict[float, int]:
    """Count the runs of each suggestion."""
    return {
        float(path.name.removeprefix("ran-")): len(path.read_text())
        for path in folder.iterdir()
        if path.name.startswith("ran-")
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    made.mkdir()
    return made


@pytest.mark.thorough
def test_a_killed_server_does_not_end_a_search(home: Path, project: Project, folder: Path) -> None:
    author = project.start(script(project), "server", folder, "8")
    eventually(lambda: len(runs(folder)) >= 4, "the search is in the midst")
    kill_server(home)
    (folder / "go").touch()
    out, err = author.communicate(timeout=PATIENCE)
    assert author.returncode == 0, err
    assert "{'complete': 8}" in out
    assert runs(folder) == dict.fromkeys(suggestions(8), 1)


@pytest.mark.thorough
def test_a_search_continues_unchanged_after_its_author_is_killed(
    home: Path, project: Project, folder: Path
) -> None:
    path = script(project)
    author = project.start(path, "author", folder, "8")
    eventually(lambda: len(runs(folder)) >= 4, "the search is in the midst")
    author.kill()
    author.wait()
    search = wl.get_experiment("author")
    eventually(lambda: list(search.list_trials(state="RUNNING")), "they go on without it")
    (folder / "go").touch()
    again = project.python(path, "author", folder, "8")
    assert again.returncode == 0, again.stderr
    assert "goes on" in again.stderr
    assert "{'complete': 8}" in again.stdout
    assert runs(folder) == dict.fromkeys(suggestions(8), 1)
    trials = list(wl.get_experiment("author").list_trials())
    assert [trial.record.recipe.search.params["x"] for trial in trials] == suggestions(8)  # type: ignore[union-attr]

    extended = project.python(path, "author", folder, "10")
    assert "{'complete': 10}" in extended.stdout
    assert runs(folder) == dict.fromkeys(suggestions(10), 1)


@pytest.mark.thorough
def test_a_repeatedly_killed_author_runs_nothing_twice(
    home: Path, project: Project, folder: Path
) -> None:
    """Killed at any moment: while it adds trials, reads their reports, or before it starts."""
    path = script(project)
    (folder / "go").touch()
    for number in range(6):
        author = project.start(path, "unlucky", folder, "16")
        before = len(runs(folder))
        eventually(
            lambda begun=before, wanted=number % 3: (  # type: ignore[misc]
                len(runs(folder)) >= min(begun + wanted, 16)
            ),
            "it has come a little further",
        )
        author.kill()
        author.wait()
    last = project.python(path, "unlucky", folder, "16")
    assert last.returncode == 0, last.stderr
    assert "{'complete': 16}" in last.stdout
    assert runs(folder) == dict.fromkeys(suggestions(16), 1)


@pytest.mark.thorough
def test_two_processes_of_one_search_share_its_trials(
    home: Path, project: Project, folder: Path
) -> None:
    path = script(project)
    (folder / "go").touch()
    wl.create_experiment("shared")
    authors = [project.start(path, "shared", folder, "12") for _ in range(2)]
    output = [author.communicate(timeout=PATIENCE) for author in authors]
    assert [author.returncode for author in authors] == [0, 0], output
    assert output[0][0] == output[1][0]
    assert "{'complete': 12}" in output[0][0]
    assert runs(folder) == dict.fromkeys(suggestions(12), 1)


def test_ctrl_c_stops_the_trials_and_they_are_repeated_later(
    home: Path, project: Project, folder: Path
) -> None:
    path = script(project)
    author = project.start(path, "interrupted", folder, "6")
    eventually(lambda: len(runs(folder)) >= 4, "the search is in the midst")
    os.kill(author.pid, signal.SIGINT)
    _, err = author.communicate(timeout=PATIENCE)
    assert author.returncode == 128 + signal.SIGINT or author.returncode == -signal.SIGINT
    assert "Ctrl-C again leaves without waiting" in err
    assert "was interrupted after" in err
    interrupted = wl.get_experiment("interrupted")
    again = f"wl.get_experiment({interrupted.id}).search(...)"
    assert f"To continue: {again} with the same settings." in err
    states: dict[str, Any] = interrupted.states
    assert states.get("STOPPED", 0) > 0
    assert not set(states) - {"STOPPED", "SUCCEEDED"}, "nothing is left running"
    stopped = states["STOPPED"]
    # A stopped trial may never have started.
    begun = sum(runs(folder).values())
    (folder / "go").touch()
    again = project.python(path, "interrupted", folder, "6")
    assert again.returncode == 0, again.stderr
    assert f"{{'complete': 6, 'interrupted': {stopped}}}" in again.stdout
    ran = runs(folder)
    assert set(ran) == set(suggestions(6))
    assert sum(ran.values()) == begun + 6 - states.get("SUCCEEDED", 0)


@pytest.mark.thorough
def test_a_resumed_search_knows_the_pruned_trials(home: Path, project: Project) -> None:
    """The author is killed once some trials were pruned. The next author knows their rungs."""
    path = project.write(
        "asha.py",
        """
        import os, sys, time
        import windlass as wl

        @wl.run(cpus=0.1)
        def train(x):
            for step in range(1, 9):
                wl.report(step, loss=x)
                if wl.should_stop():
                    return
                time.sleep(0.05)

        if __name__ == "__main__":
            experiments = list(wl.list_experiments(name="asha"))
            experiment = experiments[0] if experiments else wl.create_experiment("asha")
            found = experiment.search(
                train, space={"x": wl.uniform(0, 1)}, metric="loss", method="asha", trials=16,
                concurrent=2, seed=1, reduction=2,
            )
            print(found.counts, found.best_value == min(row["x"] for row in found.table))
        """,
    )
    author = project.start(path)

    def pruned() -> list[int]:
        experiments = list(wl.list_experiments(name="asha"))
        trials = experiments[0].list_trials() if experiments else ()
        return [t.id for t in trials if t.record.asked_to_stop and t.is_finished]

    eventually(lambda: len(pruned()) >= 3, "some are ended early")
    author.kill()
    author.wait()
    pruned_ids = pruned()
    again = project.python(path)
    assert again.returncode == 0, again.stderr
    assert again.stdout.strip().endswith("True"), "the best of all was left to the end"
    trials = list(wl.get_experiment("asha").list_trials())
    assert len(trials) == 16
    assert set(pruned_ids) <= {t.id for t in trials if t.record.asked_to_stop}
