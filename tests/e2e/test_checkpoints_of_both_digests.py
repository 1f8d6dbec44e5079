"""Checkpoints whose files are named by BLAKE3 and by SHA-256: users see no difference."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE

LARGE = 9 << 20  # fetched by itself, in pieces

both_kinds = pytest.mark.parametrize("has_blake3", [True, False])


@wl.run(cpus=0.1)
def save(data: bytes, has_blake3: bool) -> str | None:
    """Save a large file and a small one on top of what there is."""
    import sys

    if not has_blake3:
        sys.modules["blake3"] = None  # type: ignore[assignment]  # importing it fails
    found = wl.latest_checkpoint()
    began = (Path(found) / "small").read_bytes() if found else b""
    Path("model").mkdir(exist_ok=True)
    Path("model", "large").write_bytes(data * 9)
    Path("model", "small").write_bytes(began + data[:10])
    return wl.save_checkpoint("model", step=1)


def blobs(home: Path) -> dict[str, Path]:
    """The files of checkpoints in the store, by what they are: as large as they are here."""
    sizes = {LARGE: "large", 10: "small", 20: "small of two"}
    found = {path.stat().st_size: path for path in (home / "blobs").glob("??/*")}
    return {sizes[size]: path for size, path in found.items() if size in sizes}


def saved(data: bytes, has_blake3: bool) -> wl.Checkpoint:
    return wl.get_checkpoint(save.submit(data, has_blake3).result(timeout=PATIENCE) or "")


@both_kinds
def test_they_are_downloaded_as_they_were(
    fresh_home: Path, tmp_path: Path, has_blake3: bool
) -> None:
    data = os.urandom(1 << 20)
    checkpoint = saved(data, has_blake3)
    assert {path.name.startswith("b3-") for path in blobs(fresh_home).values()} == {has_blake3}
    folder = checkpoint.download(tmp_path / "model")
    assert (folder / "large").read_bytes() == data * 9
    assert (folder / "small").read_bytes() == data[:10]
    (folder / "large").unlink()
    checkpoint.download(folder)  # what is there is known again
    assert (folder / "large").stat().st_size == LARGE
    (folder / "small").write_bytes(b"0123456789")
    with pytest.raises(wl.Conflict, match="'small' is another"):
        checkpoint.download(folder)
    version = wl.create_model("detector").register_version(checkpoint)
    assert (version.download(tmp_path / "version") / "small").read_bytes() == data[:10]


@both_kinds
@pytest.mark.parametrize("which", ["large", "small"])
def test_a_damaged_one_is_noticed(
    fresh_home: Path, tmp_path: Path, has_blake3: bool, which: str
) -> None:
    checkpoint = saved(os.urandom(1 << 20), has_blake3)
    with blobs(fresh_home)[which].open("r+b") as file:
        byte = file.read(1)
        file.seek(0)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(wl.ServerError, match="is damaged"):
        checkpoint.download(tmp_path / "model")
    assert not (tmp_path / "model" / which).exists()


@both_kinds
def test_they_are_kept_while_they_are_needed_and_then_collected(
    fresh_home: Path, tmp_path: Path, has_blake3: bool
) -> None:
    data = os.urandom(1 << 20)
    checkpoint = saved(data, has_blake3)
    assert wl.gc(older_than=0).bytes < LARGE
    assert (checkpoint.download(tmp_path / "model") / "large").read_bytes() == data * 9
    checkpoint.delete()
    assert wl.gc(older_than=0).bytes >= LARGE
    assert blobs(fresh_home) == {}


def test_one_goes_on_from_the_other(fresh_home: Path, tmp_path: Path) -> None:
    """As when the trials of an older version are continued, in either order."""
    data = os.urandom(1 << 20)
    first = saved(data, False)
    for has_blake3 in (True, False):
        trial = first.trial.continue_({"has_blake3": has_blake3})
        other = wl.get_checkpoint(trial.result(timeout=PATIENCE) or "")
        small = blobs(fresh_home)["small of two"]
        assert small.name.startswith("b3-") == has_blake3
        folder = other.download(tmp_path / str(has_blake3))
        assert (folder / "small").read_bytes() == data[:10] * 2
        assert (folder / "large").read_bytes() == data * 9
        other.delete()
        wl.gc(older_than=0)
    again = saved(data, True).trial.continue_({"has_blake3": False})
    assert wl.get_checkpoint(again.result(timeout=PATIENCE) or "").files == 2
