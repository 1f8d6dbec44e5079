"""The directory of one attempt, and supervisors that a test starts on it."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import windlass.worker
from windlass.worker.logs.segment import read_parts
from windlass.worker.logs.segment_reader import join_lines

PATIENCE = 60.0  # an upper limit that only a failure reaches
SUPERVISOR = Path(windlass.worker.__file__).with_name("supervisor.py")


class Attempt:
    """A launch file, and its results."""

    def __init__(self, home: Path, script: str, **launch: Any) -> None:
        self.dir = home / "trials" / "1" / "main-0" / "1"
        self.dir.mkdir(parents=True)
        self.work = self.dir.parent / "work"
        self.launch = {
            "key": {"uid": "u1", "trial_id": 1, "role": "main", "index": 0, "attempt": 1},
            "executable": {"type": "process", "argv": ["python", "-c", textwrap.dedent(script)]},
            "python": sys.executable,
            "work": str(self.work),
            "workdir": ".",
            "import_paths": [],
            "extra_paths": [],
            "root": "",
            "tree": None,
            "blobs": str(home / "blobs"),
            "env": {},
            "private": None,
            "secret_names": [],
            "volumes": [],
            "environment": None,
            "server_file": str(home / "server.json"),
            **launch,
        }
        (self.dir / "launch.json").write_text(json.dumps(self.launch))

    def supervise(self) -> subprocess.Popen[bytes]:
        """Start a supervisor."""
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(SUPERVISOR), str(self.dir)], start_new_session=True
        )

    def run(self) -> dict[str, Any]:
        """Run to the end and return the exit record."""
        assert self.supervise().wait(PATIENCE) == 0
        return self.json("exit.json")

    def json(self, name: str) -> dict[str, Any]:
        record = json.loads((self.dir / name).read_text())
        assert isinstance(record, dict)
        return record

    def lines(self) -> list[tuple[str, str]]:
        path = self.dir / "log"
        data = path.read_bytes() if path.exists() else b""
        return [(line.stream, line.text.decode()) for line in join_lines(read_parts(data))]

    def wait_for_text(self, text: str) -> None:
        eventually(lambda: any(text in line for _, line in self.lines()), f"it wrote {text!r}")


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Poll until a condition holds, where no notification exists."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.01)
