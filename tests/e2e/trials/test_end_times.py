"""The times of a trial are those of its process, also if no server ran at its end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import windlass as wl
from harness import Project, eventually, kill_server, windlass
from windlass.model.text.quantities import format_duration
from windlass.worker.common.file_reads import read_json


@pytest.mark.finding("U6")
def test_a_trial_that_ends_without_a_server_has_the_times_of_its_exit_record(
    fresh_home: Path, project: Project
) -> None:
    go = project.path / "go"
    script = f"while [ ! -e {go} ]; do sleep 0.01; done"
    trial = wl.Job(wl.Command(["sh", "-c", script])).submit()
    eventually(lambda: trial.refresh().state == "RUNNING", "the trial runs")
    exit_file = Path(trial.directory) / "main-0/1/exit.json"
    kill_server(fresh_home)
    go.touch()
    eventually(exit_file.exists, "the trial has ended")
    time.sleep(1.1)  # the next server starts later
    record = read_json(str(exit_file))
    assert record is not None
    trial = wl.get_trial(trial.id).wait()
    assert (trial.record.started, trial.record.ended) == (record["started"], record["ended"])
    ran = format_duration(record["ended"] - record["started"])
    shown = windlass("show", trial.id).stdout
    assert f"(ran {ran})" in shown
    since_creation = trial.record.ended - trial.record.created
    assert f"+{format_duration(since_creation)}" in shown.splitlines()[-1]
    assert ran in windlass("tasks", trial.id).stdout
    assert ran in windlass("ls").stdout
