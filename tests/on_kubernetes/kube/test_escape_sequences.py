"""Words of a cluster that would steer a terminal: they are shown there, and steer nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trials import pods_of
from pseudo_terminal import Terminal

# A title, a screen that is cleared, a line above, a colour by one byte, letters from right to left.
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[1A\x9b31mhostile\u202e " + "long " * 1000
STEERING = [each.encode() for each in ("\x1b]", "\x1b[2J", "\x1b[1A", "\x9b", "\u202e")]

# Nobody gives its pod a machine: what is said of it is what a test writes.
SCRIPT = """
import windlass as wl
wl.Job(
    wl.Command(["python3", "-c", "pass"]), restart_policy="Never",
    executor=wl.Kubernetes(namespace={namespace!r}, pod_patch={{"schedulerName": "nobody"}}),
).run()
"""


@pytest.fixture
def terminal(home_with_cluster: Path, namespace: Namespace, project: Project) -> Iterator[Terminal]:
    """Where somebody waits for a trial whose pod nobody starts."""
    project.write("run.py", SCRIPT.format(namespace=namespace.name))
    made = Terminal(project, "run.py")
    eventually(lambda: bool(pods_of(namespace)), "its pod is made")
    yield made
    made.process.kill()
    made.process.wait(PATIENCE)


def say(namespace: Namespace, **status: object) -> None:
    """Have the cluster say something of the pod."""
    [name] = pods_of(namespace)
    namespace.core.patch_namespaced_pod_status(name, namespace.name, {"status": status})


def check_tame(text: str) -> None:
    assert [each for each in text if not each.isprintable() and each not in "\n\t"] == []


def shown(*words: object) -> str:
    """What a command says."""
    command = [str(BIN / "windlass"), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    return done.stdout + done.stderr


def test_why_a_pod_waits_steers_no_terminal(terminal: Terminal, namespace: Namespace) -> None:
    waits = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": HOSTILE,
    }  # fmt: skip
    say(namespace, conditions=[waits])
    terminal.wait_for("owned")
    [trial] = wl.list_trials()
    for words in (("show", trial.id), ("ls",), ("logs", trial.id), ("tasks", trial.id)):
        check_tame(shown(*words))
    assert "owned" in shown("show", trial.id)
    terminal.press_ctrl_c()
    assert [each for each in STEERING if each in terminal.raw] == []


@pytest.mark.thorough
def test_how_a_pod_ended_steers_no_terminal(terminal: Terminal, namespace: Namespace) -> None:
    say(namespace, phase="Failed", reason="Evicted", message=HOSTILE)
    terminal.wait_for("owned")
    assert terminal.finish() == 1
    [trial] = wl.list_trials()
    for words in (("show", trial.id), ("ls",), ("logs", trial.id), ("stop", trial.id)):
        check_tame(shown(*words))
    assert "owned" in shown("show", trial.id)
    assert [each for each in STEERING if each in terminal.raw] == []
