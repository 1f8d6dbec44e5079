"""An empty folder to submit jobs from.

A snapshot of this repository costs ten times as much, and again after each change of a file.
"""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "submitted-from").mkdir()
    monkeypatch.chdir(tmp_path / "submitted-from")
