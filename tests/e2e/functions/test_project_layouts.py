"""Decorated functions work in scripts, modules, packages, tests, sessions and unusual folders."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import windlass as wl
from harness import BIN, PATIENCE, Project

SHARES_HOME = True

PACKAGE = {
    "train.py": """
        from pathlib import Path

        import windlass as wl

        from . import data
        from .data import scale


        @wl.run
        def train(x):
            from .deep.layers import width

            words = (Path(data.__file__).parent / "words.txt").read_text().split()
            return scale(x) + width, words


        def main():
            print(train(2))


        if __name__ == "__main__":
            main()
        """,
    "data.py": "def scale(x):\n    return 10 * x\n",
    "words.txt": "one two\n",
    "__init__.py": "",
    "deep/__init__.py": "",
    "deep/layers.py": "from ..data import scale\n\nwidth = scale(0) + 3\n",
}


def write_package(project: Project, folder: str) -> None:
    for name, text in PACKAGE.items():
        project.write(f"{folder}/{name}", text)


def output(done: subprocess.CompletedProcess[str]) -> str:
    """Return the output of a program that succeeded."""
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_script_without_a_main_guard_runs_once_and_so_does_its_function(
    home: Path, project: Project
) -> None:
    project.write("helper.py", "def scale(x):\n    return 10 * x\n")
    project.write(
        "train.py",
        """
        import windlass as wl
        from helper import scale

        print("the script begins")
        seen = []

        @wl.run
        def train(x):
            print("training")
            return scale(x) + len(seen)

        seen.append(1)
        print(train(4))
        """,
    )
    lines = ["the script begins", "training", "41"]
    assert output(project.python("train.py")).splitlines() == lines
    # The folder is not in a repository: there is no git state, but the code is included.
    trial = next(wl.list_trials(sort_by="-id"))
    assert trial.provenance.git is None
    assert trial.code.root == str(project.path)
    assert trial.provenance.tree_files == 2


def test_a_module_of_a_package_runs_with_its_relative_imports(home: Path, project: Project) -> None:
    write_package(project, "pkg")
    assert output(project.python("-m", "pkg.train")) == "(23, ['one', 'two'])\n"


def test_a_package_in_a_src_layout_runs_by_module_from_a_script_and_from_its_tests(
    home: Path, project: Project
) -> None:
    write_package(project, "src/acme")
    project.write("pyproject.toml", "[project]\nname = 'acme'\nversion = '1'\n")
    project.write("scripts/go.py", "from acme.train import main\nmain()\n")
    project.write(
        "tests/test_train.py",
        """
        import acme.train
        import pytest
        import windlass as wl


        def test_it_trains():
            assert acme.train.train(1) == (13, ["one", "two"])


        def test_a_function_of_the_test_itself_runs_too():
            @wl.run
            def train(x):
                return acme.data.scale(x)

            assert train(5) == 50
            with pytest.raises(TypeError, match="missing"):
                train()
        """,
    )
    env = {"PYTHONPATH": str(project.path / "src")}
    expected = "(23, ['one', 'two'])\n"
    assert output(project.python("-m", "acme.train", env=env)) == expected
    assert output(project.python("scripts/go.py", env=env)) == expected
    tested = project.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", env=env)
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout


def test_a_program_given_on_the_command_line_runs(home: Path, project: Project) -> None:
    project.write("helper.py", "def scale(x):\n    return 10 * x\n")
    code = "import helper, windlass as wl\nprint(wl.run(lambda x: helper.scale(x))(3))"
    assert output(project.python("-c", code)) == "30\n"


def test_functions_and_classes_typed_into_an_interactive_session_run(
    home: Path, project: Project
) -> None:
    typed = """
import windlass as wl
from dataclasses import dataclass
@dataclass
class Point:
    x: int

@wl.run
def move(point, by=1):
    print("moving", point.x)
    return Point(point.x + by)

there = move(Point(3), by=4)
print("isinstance:", isinstance(there, Point), there)
@wl.run
def move(point):
    return move.__name__ + " again"

move(there)
exit()
"""
    shown = converse([sys.executable, "-i", "-q"], typed, project.path)
    assert "moving 3" in shown
    assert "isinstance: True Point(x=7)" in shown
    assert "'move again'" in shown
    assert "Traceback" not in shown


def converse(argv: list[str], typed: str, cwd: Path) -> str:
    """Run a program in a terminal, type the text, and return the screen output."""
    main, terminal = pty.openpty()
    env = {**os.environ, "TERM": "dumb", "PYTHON_BASIC_REPL": "1"}
    process = subprocess.Popen(
        argv, stdin=terminal, stdout=terminal, stderr=terminal, cwd=cwd, env=env,
        start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    os.write(main, typed.encode())
    shown = b""
    with contextlib.suppress(OSError):  # the terminal closes with the program
        while piece := os.read(main, 4096):
            shown += piece
    os.close(main)
    assert process.wait(PATIENCE) == 0
    return shown.decode()


def test_functions_of_a_jupyter_cell_run_and_can_be_awaited(
    home: Path, project: Project, tmp_path: Path
) -> None:
    project.write("helper.py", "def scale(x):\n    return 10 * x\n")
    cells = [
        "import windlass as wl\nfrom dataclasses import dataclass\nimport helper",
        "@dataclass\nclass Point:\n    x: int",
        "@wl.run\ndef move(point, by=1):\n    print('moving', point.x)\n"
        "    return Point(helper.scale(point.x) + by)",
        "there = move(Point(3), by=4)\nassert isinstance(there, Point)\nthere",
        "await move.submit(there)",
        "@wl.run\ndef move(point):\n    return 'moved otherwise'\nmove(there)",
    ]
    notebook = {
        "cells": [
            {"cell_type": "code", "source": cell, "metadata": {}, "outputs": [],
             "execution_count": None}
            for cell in cells
        ],
        "metadata": {}, "nbformat": 4, "nbformat_minor": 4,
    }  # fmt: skip
    path = project.write("explore.ipynb", json.dumps(notebook))
    folders = {name: str(tmp_path) for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    run = project.run(BIN / "jupyter", "execute", "--inplace", path, env=folders)
    assert run.returncode == 0, run.stderr
    outputs = [
        "".join(output.get("text") or output["data"]["text/plain"])
        for cell in json.loads(path.read_text())["cells"]
        for output in cell["outputs"]
        if output["output_type"] != "display_data"  # the status of a call
    ]
    assert outputs == [
        "moving 3\n", "Point(x=34)", "Point(x=341)", "'moved otherwise'",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["plain", "mein Projekt & Übung 日本 'q' $x"])
def test_a_trial_finds_the_files_of_its_folder_and_writes_to_its_own(
    home: Path, project: Project, name: str
) -> None:
    root = project.path / name
    project.write(f"{name}/pyproject.toml", "")
    project.write(f"{name}/lib/tools.py", "def shout(x):\n    return x.upper()\n")
    project.write(f"{name}/runs/here/words ü.txt", "from the folder")
    project.write(
        f"{name}/train.py",
        """
        import os
        import sys

        sys.path.append(os.path.join(os.path.dirname(__file__), "lib"))
        import tools
        import windlass as wl


        @wl.run
        def train():
            text = open("words ü.txt").read()
            with open("result.txt", "w") as file:
                file.write(tools.shout(text))
            with open("words ü.txt", "a") as file:
                file.write(", changed")
            return text, os.path.exists("../../train.py"), os.getcwd()


        print(*train(), sep="\\n")
        """,
    )
    here = root / "runs" / "here"
    text, seen, cwd = output(project.python(root / "train.py", cwd=here)).splitlines()
    assert (text, seen) == ("from the folder", "True")
    assert sorted(os.listdir(here)) == ["words ü.txt"]
    assert (here / "words ü.txt").read_text() == "from the folder"
    trial = next(wl.list_trials(sort_by="-id"))
    work = Path(trial.directory) / "main-0" / "work" / "runs" / "here"
    assert Path(cwd) == work
    assert (work / "result.txt").read_text() == "FROM THE FOLDER"
    assert (work / "words ü.txt").read_text() == "from the folder, changed"


def test_edits_after_submit_do_not_change_a_submitted_trial(home: Path, project: Project) -> None:
    project.write("helper.py", "def scale(x):\n    return 10 * x\n")
    project.write("settings.txt", "old")
    project.write("late.py", "word = 'old'\n")
    project.write(
        "job.py",
        """
        import os
        import time

        import windlass as wl
        from helper import scale


        @wl.run
        def block(path):
            while not os.path.exists(path):
                time.sleep(0.01)


        @wl.run
        def train(x):
            import late

            return scale(x), open("settings.txt").read(), late.word
        """,
    )
    project.write(
        "main.py",
        """
        import os
        from pathlib import Path

        import job
        import windlass as wl


        @wl.run
        def mine(x):
            beside = Path(__file__).parent / "settings.txt"
            return ("old main", beside.read_text(), *job.train(x))


        cpus = wl.Client().server_info().capacity.cpus
        blocker = job.block.options(cpus=cpus).submit(os.path.abspath("go"))
        submitted = [job.train.submit(1), mine.submit(2)]
        for name in ("helper.py", "job.py", "main.py"):
            Path(name).write_text("raise SystemExit('edited')")
        Path("settings.txt").write_text("new")
        Path("late.py").unlink()
        assert [trial.refresh().state for trial in submitted] == ["QUEUED", "QUEUED"]
        Path("go").touch()
        print([trial.result() for trial in submitted])
        """,
    )
    assert output(project.python("main.py")) == (
        "[(10, 'old', 'old'), ('old main', 'old', 20, 'old', 'old')]\n"
    )
