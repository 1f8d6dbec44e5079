"""What the tests of training share: the examples, as a user has them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness import Project

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture
def examples(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the examples in it, where this process works for the time of a test."""
    for path in EXAMPLES.glob("*.py"):
        shutil.copy(path, project.path)
    monkeypatch.chdir(project.path)
    return project
