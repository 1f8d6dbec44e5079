"""Checkpoints of folders with links in them: a copy always has an end."""

from __future__ import annotations

import os
from pathlib import Path

from windlass.worker import checkpoints


def test_links_back_to_where_they_are_are_left_out(tmp_path: Path) -> None:
    model, other = tmp_path / "model", tmp_path / "other"
    for folder, link in ((model, other), (other, model)):
        folder.mkdir()
        (folder / "weights").write_text(folder.name)
        (folder / "across").symlink_to(link)
    (model / "up").symlink_to("..")
    (model / "itself").symlink_to(".")
    saved = Path(checkpoints.save(str(tmp_path / "kept"), str(model), {}))
    assert sorted(os.listdir(saved)) == ["across", "weights"]
    assert os.listdir(saved / "across") == ["weights"]
    assert (saved / "across" / "weights").read_text() == "other"


def test_the_checkpoints_themselves_can_be_saved_but_for_the_copy_itself(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("1")
    kept = str(tmp_path / "kept")
    checkpoints.save(kept, str(tmp_path / "weights"), {})
    saved = checkpoints.save(kept, kept, {})
    assert os.listdir(saved) == ["1"]
