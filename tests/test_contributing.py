"""The changes that CONTRIBUTING.md explains name files and names that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
_, _, REST = PAGE.partition("## How to make a typical change\n")
CHANGES = dict(re.findall(r"(?m)^- \*\*(.+?)\.\*\* (.*)$", REST.partition("\n## ")[0]))
IS_FILE = re.compile(r"[\w./-]+(\.(py|md|toml|yml|sql)|/)")
IS_NAME = re.compile(r"_?[A-Z]\w+")


def located(path: str) -> Path:
    """A file of the page: from the root, or below the source."""
    return next((at for at in (ROOT / path, ROOT / "src/windlass" / path) if at.exists()), Path())


def test_the_page_explains_changes() -> None:
    assert len(CHANGES) > 15


@pytest.mark.parametrize("change", CHANGES)
def test_files_and_names_of_a_change_exist(change: str) -> None:
    quoted = re.findall(r"`([^`]+)`", CHANGES[change])
    paths = [text for text in quoted if IS_FILE.fullmatch(text)]
    # A bare name such as `files.py` is beside a file that the text names before.
    bare = {text for text in paths if "/" not in text and located(text) == Path()}
    files = [located(path) for path in paths if path not in bare]
    assert Path() not in files, paths
    folders = [file.parent for file in files]
    assert all(any((folder / name).exists() for folder in folders) for name in bare), bare
    modules = [file for file in files if file.suffix == ".py" and "src" in file.parts]
    sources = " ".join(file.read_text() for file in modules)
    names = [text for text in quoted if IS_NAME.fullmatch(text)]
    assert not [name for name in names if not re.search(rf"\b{name}\b", sources)]
