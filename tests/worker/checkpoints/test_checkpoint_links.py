"""Checkpoints of folders with links always end."""

from __future__ import annotations

import os
from pathlib import Path

from windlass.worker.checkpoints import copies as checkpoint_copies
from windlass.worker.checkpoints import records as checkpoint_records


def save(home: Path, path: Path) -> Path:
    saver = checkpoint_records.Saver(str(home / "trials" / "1" / "checkpoints"), "main", 0, 1)
    checkpoint_records.save(saver, str(path), None, {})
    return Path(checkpoint_copies.latest(saver) or "")


def test_cyclic_links_are_left_out(tmp_path: Path) -> None:
    model, other = tmp_path / "model", tmp_path / "other"
    for folder, link in ((model, other), (other, model)):
        folder.mkdir()
        (folder / "weights").write_text(folder.name)
        (folder / "across").symlink_to(link)
    (model / "up").symlink_to("..")
    (model / "itself").symlink_to(".")
    saved = save(tmp_path / "home", model)
    assert sorted(os.listdir(saved)) == ["across", "weights"]
    assert os.listdir(saved / "across") == ["weights"]
    assert (saved / "across" / "weights").read_text() == "other"


def test_a_folder_that_contains_the_checkpoints_is_saved_without_them(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("1")
    home = tmp_path / "home" / "trials"
    home.mkdir(parents=True)
    (home / "notes").write_text("2")
    for _ in range(2):
        saved = save(tmp_path / "home", home)
    assert sorted(os.listdir(saved)) == ["1", "notes"]
    assert os.listdir(saved / "1") == []
