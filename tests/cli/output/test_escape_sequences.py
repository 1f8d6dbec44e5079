"""Notes, file names and metadata never control the terminal."""

from __future__ import annotations

import sys

import pytest

from cli.shells import Shell

HOSTILE = "\x1b[31m\x9b31m\x07\u202e"

MAKING = r"""
    import os
    import windlass as wl

    HOSTILE = "\x1b[31m\x9b31m\x07\u202e"

    @wl.run
    def work():
        wl.report(0, loss=1.0)
        (wl.output_dir() / f"a{HOSTILE}\n").write_text("x")
        (wl.output_dir() / os.fsdecode(b"\xff\x1b[31m")).write_text("y")
        wl.save_checkpoint(wl.output_dir(), step=1, metadata={f"key{HOSTILE}": HOSTILE})

    work()
    trial = wl.get_trial(1)
    trial.set_description(HOSTILE).set_notes(HOSTILE)
    wl.get_experiment("work").set_description(HOSTILE).set_notes(HOSTILE)
    [checkpoint] = trial.list_checkpoints()
    model = wl.create_model("net", description=HOSTILE, metadata={"a": HOSTILE})
    model.set_notes(HOSTILE)
    model.register_version(checkpoint, notes=HOSTILE, metadata={"a": HOSTILE})
    wl.create_template("large", description=HOSTILE, env={"A": HOSTILE})
    wl.create_workspace("lab", HOSTILE).create_project("vision", HOSTILE)
    with wl.start_trial("notebook", params={"p": HOSTILE, f"q{HOSTILE}": 1}):
        pass
    wl.run_command(["true", HOSTILE]).wait()
"""


@pytest.fixture(scope="module")
def lab(module_shell: Shell) -> Shell:
    """A home in which every text contains escape sequences."""
    module_shell.write("making.py", MAKING)
    made = module_shell.start(sys.executable, "making.py")
    assert made.returncode == 0, made.stderr
    return module_shell


@pytest.mark.parametrize(
    "typed",
    [
        "ls", "ls --all", "ls --experiments", "show 1", "show 2", "show 3", "show work", "tasks 1",
        "metrics 1", "metrics 1 loss --plot", "artifacts 1", "checkpoint ls", "checkpoint show 1",
        "model ls", "model show net", "template ls", "template show large", "workspace ls",
        "project ls", "command ls", "diff 1 2", "compare 1 2", "ls --json", "show 1 --json",
        "model show net --json", "artifacts 1 --json", "template show large --json",
        # Typed arguments are printed, too.
        "ls --where HOSTILE", "ls --where name=HOSTILE", "checkpoint show HOSTILE",
        "model show HOSTILE", "metrics 1 HOSTILE", "logs 1 --search HOSTILE( --regex",
        "gc --older-than HOSTILE", "template show HOSTILE", "show HOSTILE",
    ],
)  # fmt: skip
def test_no_output_controls_the_terminal(lab: Shell, typed: str) -> None:
    done = lab(*(word.replace("HOSTILE", HOSTILE) for word in typed.split()))
    text = done.stdout + done.stderr
    assert "Traceback" not in text
    assert [c for c in text if not c.isprintable() and c not in "\n\t"] == []


def test_json_has_the_exact_text(lab: Shell) -> None:
    assert lab.json("show", "1")["notes"] == HOSTILE
