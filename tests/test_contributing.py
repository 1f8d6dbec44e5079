"""The changes that CONTRIBUTING.md explains name files and types that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
_, _, REST = PAGE.partition("## How to make a typical change\n")
CHANGES = dict(re.findall(r"(?m)^- \*\*(.+?)\.\*\* (.*)$", REST.partition("\n## ")[0]))
IS_FILE = re.compile(r"[^<>\s]+\.(py|md|toml|yml|sql)|[^<>\s]*/[^<>\s]*")
IS_NAME = re.compile(r"_?[A-Z]\w+")


def files(change: str) -> list[str]:
    return [text for text in quoted(change) if IS_FILE.fullmatch(text)]


def names(change: str) -> list[str]:
    return [text for text in quoted(change) if IS_NAME.fullmatch(text)]


def quoted(change: str) -> list[str]:
    return re.findall(r"`([^`]+)`", CHANGES[change])


def located(path: str) -> Path:
    """A file of the page: from the root, or below the source."""
    return next((at for at in (ROOT / path, ROOT / "src/windlass" / path) if at.exists()), Path())


def test_the_page_explains_changes_with_files_and_names() -> None:
    assert len(CHANGES) > 15
    assert sum("/" in path for change in CHANGES for path in files(change)) > 50
    assert sum(len(names(change)) for change in CHANGES) > 8


@pytest.mark.parametrize("change", CHANGES)
def test_files_and_names_of_a_change_exist(change: str) -> None:
    paths = files(change)
    # A bare name such as `files.py` is beside a file that the text names before.
    bare = {path for path in paths if "/" not in path and located(path) == Path()}
    existing = [located(path) for path in paths if path not in bare]
    assert Path() not in existing, paths
    folders = [file.parent for file in existing]
    assert all(any((folder / name).exists() for folder in folders) for name in bare), bare
    modules = [file for file in existing if file.suffix == ".py" and "src" in file.parts]
    sources = " ".join(file.read_text() for file in modules)
    assert not [name for name in names(change) if not re.search(rf"\b{name}\b", sources)]
