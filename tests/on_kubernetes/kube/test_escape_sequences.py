"""Messages of a cluster with terminal control sequences are shown without effect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE, Project, eventually, windlass
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trials import pods_of
from pseudo_terminal import Terminal

# A title, a cleared screen, a line above, a colour by one byte, right-to-left text.
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[1A\x9b31mhostile\u202e " + "long " * 1000
STEERING = [sequence.encode() for sequence in ("\x1b]", "\x1b[2J", "\x1b[1A", "\x9b", "\u202e")]

# No scheduler assigns the pod to a machine, so its status is what a test writes.
SCRIPT = """
import windlass as wl
wl.Job(
    wl.Command(["python3", "-c", "pass"]), restart_policy="Never",
    executor=wl.Kubernetes(namespace={namespace!r}, pod_patch={{"schedulerName": "nobody"}}),
).run()
"""


@pytest.fixture
def terminal(home_with_cluster: Path, namespace: Namespace, project: Project) -> Iterator[Terminal]:
    """A terminal that waits for a trial whose pod never starts."""
    project.write("run.py", SCRIPT.format(namespace=namespace.name))
    made = Terminal(project, "run.py")
    eventually(lambda: bool(pods_of(namespace)), "its pod is made")
    yield made
    made.process.kill()
    made.process.wait(PATIENCE)


def say(namespace: Namespace, **status: object) -> None:
    """Write a message of the cluster about the pod."""
    [name] = pods_of(namespace)
    namespace.core.patch_namespaced_pod_status(name, namespace.name, {"status": status})


def check_tame(text: str) -> None:
    assert [
        character for character in text if not character.isprintable() and character not in "\n\t"
    ] == []


def shown(*words: object) -> str:
    """The output of a command."""
    done = windlass(*map(str, words))
    return done.stdout + done.stderr


def test_the_reason_of_a_pending_pod_does_not_control_the_terminal(
    terminal: Terminal, namespace: Namespace
) -> None:
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
    assert [sequence for sequence in STEERING if sequence in terminal.raw] == []


@pytest.mark.thorough
def test_the_end_of_a_pod_does_not_control_the_terminal(
    terminal: Terminal, namespace: Namespace
) -> None:
    say(namespace, phase="Failed", reason="Evicted", message=HOSTILE)
    terminal.wait_for("owned")
    assert terminal.finish() == 1
    [trial] = wl.list_trials()
    for words in (("show", trial.id), ("ls",), ("logs", trial.id), ("stop", trial.id)):
        check_tame(shown(*words))
    assert "owned" in shown("show", trial.id)
    assert [sequence for sequence in STEERING if sequence in terminal.raw] == []
