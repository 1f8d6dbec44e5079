"""Files of checkpoints are named by their BLAKE3, or by their SHA-256 without that package."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from windlass.worker.blobs.digest import kind_of
from windlass.worker.checkpoints import copies as checkpoint_copies
from windlass.worker.checkpoints import records as checkpoint_records
from windlass.worker.checkpoints import shards

LARGE = 5_000_000  # copied by threads in pieces, the last of which is partial


class Trial:
    """A trial whose programs save and restore, some in an interpreter without BLAKE3."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.folder = top / "home" / "trials" / "7" / "checkpoints"
        self.model = top / "model"
        self.model.mkdir()

    def save(self) -> dict[str, str]:
        checkpoint_records.save(self.saver(), str(self.model), None, {})
        return self.newest()

    def save_without_blake3(self) -> dict[str, str]:
        self.without_blake3("records.save(saver, model, None, {})")
        return self.newest()

    def saver(self, index: int = 0) -> checkpoint_records.Saver:
        return checkpoint_records.Saver(str(self.folder), "worker", index, 1)

    def without_blake3(self, code: str) -> str:
        program = f"""
            import sys
            sys.modules["blake3"] = None  # importing it fails
            from windlass.worker.checkpoints import copies, records, shards
            model = {str(self.model)!r}
            saver = records.Saver({str(self.folder)!r}, "worker", 1, 1)
            {code}
        """
        command = [sys.executable, "-c", textwrap.dedent(program)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def newest(self) -> dict[str, str]:
        """The digests of the files of the newest checkpoint."""
        record = checkpoint_records.records(str(self.folder))[0][1]
        assert len(record["manifest"]) == 64
        blobs = self.folder.parents[2] / "blobs"
        listed = json.loads((blobs / record["manifest"][:2] / record["manifest"]).read_text())
        return {path: digest for path, _, digest, _ in listed["files"]}

    def blobs(self) -> dict[str, bytes]:
        """All blobs except manifests, by name.

        Each has the digest in its name, in the right folder.
        """
        stored_contents = {}
        for path in (self.folder.parents[2] / "blobs").glob("??/*"):
            data = path.read_bytes()
            assert kind_of(path.name).digest_of(data) == path.name
            assert path.parent.name == path.name.removeprefix("b3-")[:2]
            if not data.startswith(b'{"files"'):
                stored_contents[path.name] = data
        return stored_contents


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    made = Trial(tmp_path)
    (made.model / "large").write_bytes(os.urandom(LARGE))
    (made.model / "small").write_bytes(b"small")
    (made.model / "empty").touch()
    return made


def is_blake3(digest: str) -> bool:
    return digest.startswith("b3-") and len(digest) == 67


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_are_named_by_blake3_if_available(trial: Trial) -> None:
    named = trial.save()
    assert len(named) == 3
    assert all(map(is_blake3, named.values()))
    assert trial.blobs().keys() == set(named.values())


def test_files_are_named_by_sha256_without_blake3(trial: Trial) -> None:
    named = trial.save_without_blake3()
    assert {len(digest) for digest in named.values()} == {64}
    assert trial.blobs().keys() == set(named.values())


def test_either_kind_is_restored_without_blake3(trial: Trial) -> None:
    for save in (trial.save_without_blake3, trial.save):
        save()
        checkpoint = trial.without_blake3("print(copies.latest(saver))")
        assert contents(Path(checkpoint.strip())) == contents(trial.model)
        shutil.rmtree(trial.folder / ".restored")


def test_one_trial_can_have_checkpoints_of_both_kinds(trial: Trial) -> None:
    """An unchanged large file is not stored again under another digest."""
    older = trial.save_without_blake3()
    named = trial.save()
    assert named["large"] == older["large"]
    assert is_blake3(named["small"]) and is_blake3(named["empty"])
    (trial.model / "large").write_bytes(os.urandom(LARGE))
    assert is_blake3(trial.save()["large"])
    latest = checkpoint_copies.latest(trial.saver())
    assert latest is not None
    assert contents(Path(latest)) == contents(trial.model)


def test_a_file_that_cannot_be_compared_is_stored_with_the_available_digest(trial: Trial) -> None:
    assert is_blake3(trial.save()["large"])
    named = trial.save_without_blake3()
    assert len(named["large"]) == 64
    assert trial.save_without_blake3() == named
    assert len(trial.blobs()) == 6


@pytest.mark.parametrize("size", [5, LARGE])
def test_an_unchanged_file_is_stored_once(trial: Trial, size: int) -> None:
    for name in ("one", "same"):
        (trial.model / name).write_bytes(b"x" * size)
    named = trial.save()
    assert named["one"] == named["same"]
    stored = {path: path.stat().st_ino for path in trial.folder.parents[2].glob("blobs/??/*")}
    assert trial.save() == named
    assert stored == {path: path.stat().st_ino for path in stored}
    assert len(trial.blobs()) == 4


def test_a_missing_blob_is_stored_again(trial: Trial) -> None:
    named = trial.save()
    blobs = trial.folder.parents[2] / "blobs"
    for digest in named.values():
        (blobs / digest[3:5] / digest).unlink()
    assert trial.save() == named
    assert trial.blobs().keys() == set(named.values())


def test_ranks_with_and_without_blake3_may_save_the_same_file(trial: Trial) -> None:
    shards.save(trial.saver(), str(trial.model), 5, {}, 0, 2)
    (trial.model / "more").write_bytes(b"of rank 1")
    trial.without_blake3("shards.save(saver, model, 5, {}, 1, 2)")
    latest = checkpoint_copies.latest(trial.saver())
    assert latest is not None
    assert contents(Path(latest)) == contents(trial.model)


def test_ranks_with_and_without_blake3_may_not_save_different_files(trial: Trial) -> None:
    shards.save(trial.saver(), str(trial.model), 5, {}, 0, 2)
    (trial.model / "small").write_bytes(b"other")
    refused = """try:
                shards.save(saver, model, 5, {}, 1, 2)
            except ValueError as error:
                print(error)
    """
    assert "'small' of rank 1 differs from that of rank 0" in trial.without_blake3(refused)
    assert checkpoint_records.records(str(trial.folder)) == []


def test_a_large_file_that_cannot_be_written_is_an_error_and_leaves_nothing(trial: Trial) -> None:
    """The reading thread does not wait forever for the writing thread."""
    (trial.model / "large").write_bytes(os.urandom(32 << 20))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGE, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            trial.save()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert trial.blobs() == {}
    left = [path.name for path in (trial.folder.parents[2] / "blobs").iterdir()]
    assert left == [".lock"]
    trial.save()
