"""`windlass run --dry-run` shows the trial and runs nothing."""

from __future__ import annotations

import json
import os

import pytest

from cli.shells import Shell

ALIKE = ("name", "experiment", "project", "params", "spec", "provenance")


@pytest.fixture
def lab(own_shell: Shell) -> Shell:
    """A shell in a project with a script that writes a file, and a job file."""
    own_shell.write("pyproject.toml", "")
    own_shell.write("train.py", "open('trained', 'x')")
    own_shell.write(
        "job.toml",
        """
        framework = "tensorflow"

        [roles.chief]
        script = "train.py"
        args = { lr = 0.1 }

        [roles.worker]
        script = "train.py"
        replicas = 2
        env = { A = "b c" }
        """,
    )
    return own_shell


def test_a_script_is_shown_and_not_run(lab: Shell) -> None:
    text = lab.good("run", "--dry-run", "--cpus", "2", "train.py", "--lr", "0.1")
    assert text.startswith("Dry run of train: nothing was started\n")
    assert "python train.py --lr 0.1\n" in text and "2 CPUs\n" in text
    assert "fits this machine (16 CPUs, 64.0 GB, 2 a100)" in text
    assert os.listdir(lab.home) == ["cache"]


def test_a_job_file_is_shown_role_by_role(lab: Shell) -> None:
    text = lab.good("run", "-f", "job.toml", "--dry-run", "--name", "mnist")
    assert text.startswith("Dry run of mnist: ")
    chief, worker, whole = text.split("\n\n")[1:]
    assert chief.startswith("chief\n") and "python train.py --lr=0.1" in chief
    assert worker.startswith("worker\n") and "A='b c'" in worker and "2\n" in worker
    assert "tensorflow, which sets TF_CONFIG" in whole
    assert os.listdir(lab.home) == ["cache"]


def test_options_of_a_cluster_are_shown(lab: Shell) -> None:
    expected = {
        "namespace": "research",
        "container_image": "lab/train:7",
        "queue": "team-a",
        "priority_class": "high",
        "service_account": "trainer",
    }
    options = [f"--{name.replace('_', '-')}={value}" for name, value in expected.items()]
    what = ("run", "--dry-run", "--backend", "kubernetes", *options)
    [role] = json.loads(lab.good(*what, "--json", "train.py"))["spec"]["roles"]
    assert {name: role["kubernetes"][name] for name in expected} == expected
    labels = ("namespace", "image", "queue", "class", "account")
    text = lab.good(*what, "train.py")
    for label, value in zip(labels, expected.values(), strict=True):
        assert f"  {label.ljust(11)}  {value}\n" in text


def test_json_has_the_record_of_the_real_run(lab: Shell) -> None:
    what = ("--env", "A=b c", "train.py", "--lr", "0.1")
    dry = json.loads(lab.good("run", "--dry-run", "--json", *what))
    assert (dry["id"], dry["state"]) == (None, "DRY")
    assert dry["commands"] == {"main": "python train.py --lr 0.1"}
    real = json.loads(lab.good("run", "--detach", "--json", *what))
    dry["provenance"]["argv"] = real["provenance"]["argv"]  # which has other options
    assert {key: dry[key] for key in ALIKE} == {key: real[key] for key in ALIKE}


def test_problems_are_reported_as_in_the_real_run(lab: Shell) -> None:
    for words in (["--cpus", "99", "train.py"], ["--replicas", "0", "trian.py"], ["--", "nope"]):
        dry, real = lab("run", "--dry-run", *words), lab("run", *words)
        assert dry.returncode == real.returncode != 0
        assert (dry.stdout, dry.stderr) == ("", real.stderr)


def test_a_terminal_has_colours_and_a_pipe_has_none(lab: Shell) -> None:
    terminal = lab.terminal("run", "--dry-run", "train.py")
    assert terminal.end() == 0
    assert "\x1b[1mDry run of train\x1b[0m: nothing was started" in terminal.raw
    plain = lab.terminal("run", "--dry-run", "train.py", NO_COLOR="1")
    assert plain.end() == 0 and "\x1b[1m" not in plain.raw
    assert "\x1b" not in lab.good("run", "--dry-run", "train.py")


def test_the_script_may_have_an_option_of_that_name(lab: Shell) -> None:
    text = lab.good("run", "--dry-run", "train.py", "--dry-run")
    assert "python train.py --dry-run\n" in text
