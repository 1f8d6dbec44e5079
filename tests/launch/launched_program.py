"""What the tests of experiments launch: a program that tells what it was given."""

from __future__ import annotations

import json
from typing import Any

import windlass as wl
from harness import PATIENCE

# So little of the CPUs that tens run side by side.
LITTLE = wl.Local(cpus=0.05)

TELL = """
    import json, os, sys
    from pathlib import Path

    role = os.environ["WINDLASS_ROLE"]
    beside = Path(__file__).with_name("word.txt")
    word = beside.read_text() if beside.exists() else ""
    print(json.dumps([role, sys.argv[1:], os.environ.get("GREETING", ""), word]))
"""


def told(trial: wl.Trial[Any]) -> list[list[Any]]:
    """What each replica of a trial tells of itself, by role: its arguments, a variable, a file."""
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", [str(line) for line in trial.logs()]
    return sorted(json.loads(line) for line in map(str, trial.logs()))
