"""Checkpoints whose files are named by BLAKE3 and by SHA-256: users see no difference."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from checkpoint_functions import save_two_sizes

import windlass as wl
from harness import PATIENCE

LARGE = 9 << 20  # downloaded separately, in pieces


def blobs(home: Path) -> dict[str, Path]:
    """Return the checkpoint files in the store by content, which is identified by size here."""
    sizes = {LARGE: "large", 10: "small", 20: "small of two"}
    blobs_by_size = {path.stat().st_size: path for path in (home / "blobs").glob("??/*")}
    return {sizes[size]: path for size, path in blobs_by_size.items() if size in sizes}


def saved(data: bytes, has_blake3: bool) -> wl.Checkpoint:
    trial = save_two_sizes.submit(data, has_blake3)
    return wl.get_checkpoint(trial.result(timeout=PATIENCE) or "")


def flip_a_bit(path: Path) -> None:
    with path.open("r+b") as file:
        byte = file.read(1)
        file.seek(0)
        file.write(bytes([byte[0] ^ 1]))


@pytest.mark.parametrize("has_blake3", [True, False])
def test_both_are_downloaded_unchanged_and_damage_is_detected(
    home: Path, tmp_path: Path, has_blake3: bool
) -> None:
    data = os.urandom(1 << 20)
    checkpoint = saved(data, has_blake3)
    assert {path.name.startswith("b3-") for path in blobs(home).values()} == {has_blake3}
    assert wl.gc(older_than=0).bytes < LARGE, "it is needed"
    folder = checkpoint.download(tmp_path / "model")
    assert (folder / "large").read_bytes() == data * 9
    assert (folder / "small").read_bytes() == data[:10]
    (folder / "large").unlink()
    checkpoint.download(folder)  # existing files are recognized
    assert (folder / "large").stat().st_size == LARGE
    (folder / "small").write_bytes(b"0123456789")
    with pytest.raises(wl.Conflict, match="'small' differs"):
        checkpoint.download(folder)
    model = wl.create_model("detector")
    version = model.register_version(checkpoint)
    assert (version.download(tmp_path / "version") / "small").read_bytes() == data[:10]
    model.delete()
    for which in ("large", "small"):
        blob = blobs(home)[which]
        flip_a_bit(blob)
        for _ in range(2):
            with pytest.raises(wl.NotFound, match=rf"'{which}' .* was damaged"):
                checkpoint.download(tmp_path / f"damaged-{which}")
            assert not (tmp_path / f"damaged-{which}" / which).exists()
        (home / "blobs" / f".damaged-{blob.name}").rename(blob)
        flip_a_bit(blob)
    checkpoint.delete()
    assert wl.gc(older_than=0).bytes >= LARGE
    assert blobs(home) == {}


@pytest.mark.thorough
def test_a_trial_resumes_from_a_checkpoint_of_the_other_kind(home: Path, tmp_path: Path) -> None:
    """A continued trial may save with another digest than its predecessor, in either order."""
    data = os.urandom(1 << 20)
    first = saved(data, False)
    for has_blake3 in (True, False):
        trial = first.trial.continue_({"has_blake3": has_blake3})
        other = wl.get_checkpoint(trial.result(timeout=PATIENCE) or "")
        small = blobs(home)["small of two"]
        assert small.name.startswith("b3-") == has_blake3
        folder = other.download(tmp_path / str(has_blake3))
        assert (folder / "small").read_bytes() == data[:10] * 2
        assert (folder / "large").read_bytes() == data * 9
        other.delete()
        wl.gc(older_than=0)
    again = saved(data, True).trial.continue_({"has_blake3": False})
    assert wl.get_checkpoint(again.result(timeout=PATIENCE) or "").files == 2
