"""`windlass tensorboard` with the real TensorBoard: live trials, several replicas, ended trials."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from required_frameworks import needs

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually

pytestmark = needs("tensorboard")

WRITER = """
    import os
    import sys
    import time
    import types

    import windlass as wl

    # As TensorBoard's own tests say that TensorFlow is not to be loaded, which takes seconds.
    sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(wl.tensorboard_dir()))
    value = Summary.Value(tag="loss", simple_value=0.5)
    writer.add_event(Event(wall_time=time.time(), step=1, summary=Summary(value=[value])))
    writer.flush()
    while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
        time.sleep(0.05)
    writer.close()
"""


@pytest.fixture
def board(project: Project, home: Path):  # type: ignore[no-untyped-def]
    """Starts `windlass tensorboard`, and ends it after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str, **env: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [BIN / "windlass", "tensorboard", "--port", "0", *words],
            cwd=project.path,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(project.path), **env},
        )
        started.append(process)
        assert process.stderr is not None
        for line in iter(process.stderr.readline, ""):
            if match := re.search(r"http://\S+", line):
                return process, match[0]
        raise AssertionError("it never said where it is")

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)


def runs(url: str) -> set[str]:
    """The runs that a TensorBoard shows."""
    with urllib.request.urlopen(f"{url}data/runs", timeout=PATIENCE) as answer:
        return set(json.load(answer))


Start = Callable[..., tuple[subprocess.Popen[str], str]]


def test_running_trials_are_shown_until_ctrl_c(
    home: Path, project: Project, board: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.write("write.py", WRITER)
    gate = tmp_path / "gate"
    script = wl.PythonScript("write.py")
    one = wl.Job(script, executor=wl.Local(cpus=0.1)).submit().wait(timeout=PATIENCE)
    both = wl.Job(script, args=[str(gate)], replicas=2, executor=wl.Local(cpus=0.1)).submit()
    process, url = board(str(one.id), str(both.id))
    role = both.replicas[0].role
    wanted = {
        f"{one.id}-{one.name}",
        f"{both.id}-{both.name}/{role}-0",
        f"{both.id}-{both.name}/{role}-1",
    }
    eventually(lambda: runs(url) == wanted, f"it shows {wanted}, not {runs(url)}")
    assert not both.refresh().is_finished
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    with pytest.raises(OSError):
        runs(url)
    assert list(project.path.glob("windlass-tensorboard-*")) == []
    gate.touch()
    both.wait(timeout=PATIENCE)


def test_copies_are_shown_for_a_remote_server(
    home: Path, project: Project, board: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.write("write.py", WRITER)
    gate = tmp_path / "gate"
    job = wl.Job(wl.PythonScript("write.py"), args=[str(gate)], executor=wl.Local(cpus=0.1))
    trial = job.submit()
    token = (home / "token").read_text().strip()
    url = json.loads((home / "server.json").read_text())["url"]
    process, shown = board(str(trial.id), WINDLASS_SERVER=url, WINDLASS_TOKEN=token)
    eventually(lambda: runs(shown) == {f"{trial.id}-{trial.name}"}, "it shows the trial")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert list(project.path.glob("windlass-tensorboard-*")) == []
    gate.touch()
    trial.wait(timeout=PATIENCE)
    place = trial.download_tensorboard(tmp_path / "board")
    [events] = place.iterdir()
    assert "tfevents" in events.name
    assert events.stat().st_size == next(trial.list_artifacts("tensorboard/*")).size


def test_a_taken_port_is_reported_in_the_words_of_tensorboard(
    home: Path, project: Project, board: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.write("write.py", WRITER)
    trial = wl.Job(wl.PythonScript("write.py"), executor=wl.Local(cpus=0.1)).submit()
    trial.wait(timeout=PATIENCE)
    port = json.loads((home / "server.json").read_text())["url"].rpartition(":")[2]
    done = project.run(BIN / "windlass", "tensorboard", "--port", port, str(trial.id))
    assert done.returncode == 1
    assert "Error: TensorBoard exited with code" in done.stderr
    assert "use" in done.stderr.partition("It said:")[2]
