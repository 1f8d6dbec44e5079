"""An empty folder to submit jobs from.

A snapshot of this repository costs ten times as much, at each change of any of its files anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "submitted-from").mkdir()
    monkeypatch.chdir(tmp_path / "submitted-from")
