"""`trial.config` returns the setup of a trial as plain data for storage and reuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import output_functions
import pytest

import windlass as wl
from harness import BIN, PATIENCE, Project
from replicas import shell

OF_ROLE = ("args", "env", "replicas", "restart_policy", "service")
WHOLE = (
    "framework", "restart_scope", "backoff_limit", "active_deadline", "ttl_after_finished",
    "clean_policy", "success_policy", "priority", "suspend", "packages", "secrets", "volumes",
    "name", "experiment",
)  # fmt: skip


def test_the_config_has_the_fields_of_a_job(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WL_TEST_TOKEN", "hush-hush")
    job = wl.Job(
        shell("true"),
        args={"lr": 0.1, "layers": [64, 32]},
        env={"MODE": "fast"},
        executor=wl.Local(cpus=0.1, memory="100MB"),
        replicas=2,
        restart_policy="ExitCode",
        restart_scope="job",
        backoff_limit=3,
        active_deadline="2h",
        priority=5,
        name="fit",
        experiment="configured",
        secrets=["WL_TEST_TOKEN"],
        volumes={"data": str(tmp_path)},
    )
    trial = job.submit().wait(timeout=PATIENCE)
    config = wl.get_trial(trial.id).config
    [(role, main)] = config["roles"].items()
    assert role == trial.replicas[0].role
    assert main["args"] == {"lr": 0.1, "layers": [64, 32]}
    assert main["env"] == {"MODE": "fast"}
    assert main["executor"] == {"cpus": 0.1, "memory": 100_000_000, "accelerator": None}
    assert (main["replicas"], main["restart_policy"]) == (2, "ExitCode")
    assert main["command"][:2] == ["sh", "-c"]
    assert (config["restart_scope"], config["backoff_limit"]) == ("job", 3)
    assert (config["active_deadline"], config["priority"]) == (7200, 5)
    assert (config["name"], config["experiment"]) == ("fit", "configured")
    assert config["secrets"] == ["WL_TEST_TOKEN"]
    assert "hush-hush" not in json.dumps(config)
    assert json.loads(json.dumps(config)) == config
    config["roles"].clear()
    assert trial.config["roles"]  # it is a copy

    # A job from the whole config is the same job.
    config = trial.config
    again: dict[str, Any] = {name: config[name] for name in WHOLE}
    again |= {name: config["roles"][role][name] for name in OF_ROLE}
    executor = wl.Local(**config["roles"][role]["executor"])
    other = wl.Job(shell("true"), executor=executor, **again).submit().wait(timeout=PATIENCE)
    assert other.config == config


def test_a_command_prints_the_config(home: Path, project: Project) -> None:
    trial = output_functions.leave.submit({}).wait(timeout=PATIENCE)
    done = project.run(BIN / "windlass", "show", str(trial.id), "--config")
    assert json.loads(done.stdout) == trial.config
    wl.create_experiment("with-config", config={"seed": 7})
    done = project.run(BIN / "windlass", "show", "-e", "with-config", "--config")
    assert json.loads(done.stdout) == {"seed": 7}


def test_the_config_of_a_function_has_its_arguments(home: Path) -> None:
    trial = output_functions.leave.submit({"a": "b"}).wait(timeout=PATIENCE)
    main = trial.config["roles"]["main"]
    assert main["function"].endswith("leave")
    assert main["args"]["files"] == trial.params["files"]
    assert main["executor"]["cpus"] == 0.05
    assert trial.config["code"]["tree"] == trial.code.tree
