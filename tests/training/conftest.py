"""Fixtures for the tests of training: the examples, as a user has them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness import Project

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture
def examples(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the examples, which is the working directory during a test."""
    for path in EXAMPLES.glob("*.py"):
        shutil.copy(path, project.path)
    monkeypatch.chdir(project.path)
    return project
