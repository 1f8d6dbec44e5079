"""The program of experiments in tests: it writes its arguments to a file."""

from __future__ import annotations

import json
from typing import Any

import windlass as wl
from harness import PATIENCE

# A share of the CPUs that is small enough to run tens of trials side by side.
LITTLE = wl.Local(cpus=0.05)

TELL = """
    import json, os, sys
    from pathlib import Path

    role = os.environ["WINDLASS_ROLE"]
    beside = Path(__file__).with_name("word.txt")
    word = beside.read_text() if beside.exists() else ""
    print(json.dumps([role, sys.argv[1:], os.environ.get("GREETING", ""), word]))
"""


def reports(trial: wl.Trial[Any]) -> list[list[Any]]:
    """The report of each replica of a trial, by role: its arguments, a variable, a file."""
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", [str(line) for line in trial.logs()]
    return sorted(json.loads(line) for line in map(str, trial.logs()))
