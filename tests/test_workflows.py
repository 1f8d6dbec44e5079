"""The workflows of GitHub and the hooks of pre-commit name commands that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import BIN

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / ".github").rglob("*.yml"))


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def commands() -> Iterator[str]:
    for path in (ROOT / ".github" / "workflows").iterdir():
        for job in load(path)["jobs"].values():
            yield from (step["run"] for step in job["steps"] if "run" in step)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_of_github_is_a_named_mapping(path: Path) -> None:
    assert load(path)["name"]


def test_workflows_run_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {target for command in commands() for target in re.findall(r"\bmake (\S+)", command)}
    assert {"demo", "test", "lint", "dist"} <= named <= targets


def test_workflows_test_every_supported_python() -> None:
    matrix = load(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["linux"]["strategy"]["matrix"]
    oldest = re.search(r'requires-python = ">=(.+)"', (ROOT / "pyproject.toml").read_text())
    assert oldest is not None
    assert matrix["python"][0] == oldest[1]


def test_hooks_are_tools_of_the_environment() -> None:
    [local] = load(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    for hook in local["hooks"]:
        command = hook["entry"].split()[0]
        assert command.startswith(".venv/bin/")
        assert (BIN / Path(command).name).exists()
