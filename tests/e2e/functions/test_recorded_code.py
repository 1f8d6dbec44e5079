"""The record of a trial contains code that is not in the project: cells, sessions, packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import windlass as wl
from harness import BIN, PATIENCE, Project, windlass

SHARES_HOME = True

CELLS = [
    "import windlass as wl\nfrom dataclasses import dataclass",
    "@dataclass\nclass Config:\n    width: int = 3",
    "def scale(x):\n    return 2 * x",
    "class Net:\n    def forward(self, x):\n        return scale(x)",
    "@wl.run\ndef train(config):\n    if config.width > 3:\n"
    "        raise ValueError('too wide')  # in a cell\n"
    "    return Net().forward(config.width)",
    "print(train.submit(Config()).wait().id)",
    "def scale(x):\n    return 3 * x",
    "print(train.submit(Config()).wait().id)",
    "print(train.submit(Config(width=4)).wait().id)",
]


@pytest.mark.finding("U2")
def test_the_cells_of_a_notebook_are_recorded_and_compared(
    home: Path, project: Project, tmp_path: Path
) -> None:
    cells = [
        {"cell_type": "code", "source": cell, "metadata": {}, "outputs": [],
         "execution_count": None}
        for cell in CELLS
    ]  # fmt: skip
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    path = project.write("explore.ipynb", json.dumps(notebook))
    folders = {name: str(tmp_path) for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    run = project.run(BIN / "jupyter", "execute", "--inplace", path, env=folders)
    assert run.returncode == 0, run.stderr
    printed = [
        "".join(output["text"])
        for cell in json.loads(path.read_text())["cells"]
        for output in cell["outputs"]
        if output.get("name") == "stdout"
    ]
    first, second, failed = (wl.get_trial(int(text)) for text in printed)

    code = first.download_code(tmp_path / "code")
    recorded = code / ".windlass-code" / "functions"
    assert {file.name for file in recorded.iterdir()} == {
        "Config.py", "Net.py", "scale.py", "train.py",
    }  # fmt: skip
    assert (recorded / "train.py").read_text().strip() == CELLS[4]
    assert (recorded / "Config.py").read_text().strip() == CELLS[1]
    shown = windlass("show", first.id).stdout
    assert "train, Net, scale, Config (without a file)" in shown

    [change] = first.diff(second).code
    assert change.path == ".windlass-code/functions/scale.py"
    assert "-    return 2 * x" in change.lines
    assert "+    return 3 * x" in windlass("diff", first.id, second.id, "--code").stdout
    logs = windlass("logs", failed.id)
    assert "    raise ValueError('too wide')  # in a cell\n" in logs.stdout + logs.stderr


STDIN = """
import windlass as wl

PASSWORD = "correct-horse"

@wl.run(secrets={"PASSWORD": PASSWORD})
def train(x):
    password = "correct-horse"
    return x + 1

print(train.submit(1).wait().id)
"""


@pytest.mark.finding("U2")
def test_programs_from_stdin_are_recorded_as_source_or_as_bytecode(
    home: Path, project: Project
) -> None:
    redirected, piped, changed = (
        wl.get_trial(_run_stdin(project, text, is_pipe=is_pipe))
        for text, is_pipe in [(STDIN, False), (STDIN, True), (STDIN.replace("+ 1", "* 7"), True)]
    )
    recorded = Path(".windlass-code/functions")
    source = (redirected.download_code(project.path / "1") / recorded / "train.py").read_text()
    assert 'password = "***"' in source and "return x + 1" in source
    bytecode = (piped.download_code(project.path / "2") / recorded / "train.txt").read_text()
    assert bytecode.startswith("# Python did not keep the source of train."), bytecode
    assert "correct-horse" not in bytecode
    [change] = piped.diff(changed).code
    assert change.path.endswith("functions/train.txt") and change.kind == "changed"


def _run_stdin(project: Project, text: str, *, is_pipe: bool) -> int:
    script = project.path.parent / "script.py"
    script.write_text(text)
    with script.open() as file:
        words = f"cat {script} | {sys.executable} -" if is_pipe else f"exec {sys.executable} -"
        done = subprocess.run(
            ["sh", "-c", words], stdin=file, cwd=project.path, env=os.environ,
            capture_output=True, text=True, timeout=PATIENCE, check=True,
        )  # fmt: skip
    return int(done.stdout)
