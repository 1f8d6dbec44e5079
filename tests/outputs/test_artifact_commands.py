"""`windlass artifacts` and `windlass tensorboard`, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import output_functions

from harness import BIN, PATIENCE, Project

WINDLASS = BIN / "windlass"


def test_artifacts_are_listed_and_downloaded(home: Path, project: Project) -> None:
    files = {"model.pt": "weights", "plots/loss.svg": "<svg/>", "two\nlines": "x"}
    trial = output_functions.leave.submit(files).wait(timeout=PATIENCE)
    done = project.run(WINDLASS, "artifacts", str(trial.id))
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["SIZE", "CHANGED", "NAME"]
    assert [(line[0], line[-1]) for line in lines[1:3]] == [
        ("7", "model.pt"),
        ("6", "plots/loss.svg"),
    ]
    assert lines[3][-2:] == ["two", "lines"]  # on one line
    assert "3 files, 14 B" in done.stderr
    artifacts = json.loads(
        project.run(WINDLASS, "artifacts", str(trial.id), "*.svg", "--json").stdout
    )
    assert [(artifact["name"], artifact["size"], artifact["role"]) for artifact in artifacts] == [
        ("plots/loss.svg", 6, "main")
    ]
    done = project.run(WINDLASS, "artifacts", str(trial.id), "*.pt", "--to", "got")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "The files are in got",
        "It becomes part of the code that you run here, unless .windlassignore has a line: /got/",
    ]
    assert [path.name for path in (project.path / "got").iterdir()] == ["model.pt"]
    done = project.run(WINDLASS, "artifacts", str(trial.id), "*.bin", "--to", "none")
    assert (done.returncode, done.stderr.split(".")[0]) == (1, "There are no such files")
    assert not (project.path / "none").exists()
    shown = project.run(WINDLASS, "show", str(trial.id)).stdout
    assert "Outputs\n  kept         3 files, 14 B\n" in shown
    assert f"windlass artifacts {trial.id} --to DIR" in shown
    (project.path / "got" / "model.pt").write_text("mine")
    again = ("artifacts", str(trial.id), "--to", "got")
    done = project.run(WINDLASS, *again)
    assert done.returncode == 1
    assert "different files with these names: 'model.pt'" in done.stderr
    assert "or replace them: --overwrite\n" in done.stderr
    assert project.run(WINDLASS, *again, "--overwrite").returncode == 0
    assert (project.path / "got" / "model.pt").read_text() == "weights"


def test_a_trial_without_files_explains_how_to_write_some(home: Path, project: Project) -> None:
    trial = output_functions.leave.submit({}).wait(timeout=PATIENCE)
    done = project.run(WINDLASS, "artifacts", str(trial.id))
    assert (done.returncode, done.stdout) == (0, "")
    assert "wl.output_dir()" in done.stderr
    done = project.run(WINDLASS, "artifacts", str(trial.id), "--to", "got")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("There are no such files.")
    assert not (project.path / "got").exists()
    done = project.run(WINDLASS, "tensorboard", str(trial.id))
    assert done.returncode == 1
    assert "These trials wrote nothing for TensorBoard" in done.stderr


def test_a_missing_tensorboard_is_reported_with_the_package(home: Path, project: Project) -> None:
    trial = output_functions.leave.submit({"tensorboard/events.out.tfevents.1": "x"})
    trial.wait(timeout=PATIENCE)
    # Simulate a missing package: neither importable nor on the path.
    project.write(
        "without.py",
        """
        import importlib.util
        import sys

        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name: None if name == "tensorboard" else find(name)
        from windlass.cli.main import main
        main()
        """,
    )
    done = project.python("without.py", "tensorboard", str(trial.id), env={"PATH": "/nowhere"})
    assert done.returncode == 1
    assert "TensorBoard is not installed here." in done.stderr
    assert "pip install tensorboard" in done.stderr


def test_files_for_tensorboard_are_downloaded(home: Path, project: Project) -> None:
    files = {"tensorboard/events": "curves", "model.pt": "weights"}
    trial = output_functions.leave.submit(files).wait(timeout=PATIENCE)
    for _again in range(2):
        done = project.run(WINDLASS, "tensorboard", str(trial.id), "--to", "board")
        assert done.returncode == 0
        errors, packaged = done.stderr.splitlines()
        assert errors == "The files are in board"
        assert packaged.endswith("unless .windlassignore has a line: /board/")
    [run] = (project.path / "board").iterdir()
    assert run.name.startswith(f"{trial.id}-")
    assert [(path.name, path.read_text()) for path in run.iterdir()] == [("events", "curves")]
    done = project.run(WINDLASS, "tensorboard", str(trial.id), "--to", "board", "--port", "1")
    assert done.returncode == 2 and "Remove --port" in done.stderr
