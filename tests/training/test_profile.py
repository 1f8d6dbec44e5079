"""`wl.profile` with the real PyTorch keeps traces and reports the slowest operations."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from callbacks import LITTLE, output_of
from required_frameworks import needs

import windlass as wl
from harness import PATIENCE, Project

pytestmark = needs("torch")


def test_steps_are_profiled_as_planned(
    home: Path, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.write(
        "train.py",
        """
        import torch

        import windlass as wl

        a = torch.randn(64, 64)
        with wl.profile(wait=2, warmup=1, active=2, repeat=2, top=3) as profiler:
            for _ in range(12):
                a = (a @ a).tanh()
                profiler.step()
        """,
    )
    trial = wl.Job(wl.PythonScript("train.py"), executor=LITTLE).submit().wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", output_of(trial)
    points = [(p.step, p.value) for p in trial.metrics("profiler/aten::mm calls")]
    assert points == [(5, 2), (10, 2)]  # of two steps each
    metrics = trial.summary_metrics
    assert metrics["profiler/total cpu_ms"].min >= metrics["profiler/aten::mm cpu_ms"].min > 0
    assert metrics["profiler/step_ms"].count == 2
    operations = {name.rpartition(" ")[0] for name in metrics if name.endswith(" calls")}
    assert len(operations) <= 2 * 3
    place = trial.download_artifacts(tmp_path / "traces", "profiles/*")
    traces = sorted(place.rglob("*.pt.trace.json.gz"))
    assert len(traces) == 2
    events = json.loads(gzip.decompress(traces[0].read_bytes()))["traceEvents"]
    assert sum(event.get("name") == "aten::mm" for event in events) == 2


def test_a_whole_block_is_profiled_outside_of_a_trial_too(project: Project) -> None:
    project.write(
        "train.py",
        """
        import torch

        import windlass as wl

        with wl.profile() as profiler:
            torch.ones(8) + 1
        print("aten::add" in profiler.key_averages().table())
        """,
    )
    done = project.python("train.py")
    assert done.stdout == "True\n", done.stderr
    assert len(list((project.path / "windlass-outputs" / "profiles").iterdir())) == 1
