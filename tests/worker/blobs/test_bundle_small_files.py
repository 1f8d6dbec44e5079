"""Many small files are stored as few blobs, which are reused, restored, and kept small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.worker.blobs.bundle_small_files import SMALL
from windlass.worker.blobs.digest import kind_of, path_in_store
from windlass.worker.blobs.restore_tree import RestoreError
from windlass.worker.checkpoints import copies as checkpoint_copies
from windlass.worker.checkpoints import records as checkpoint_records
from windlass.worker.checkpoints import shards

CROWD = 40


class Model:
    """A folder that is saved repeatedly."""

    def __init__(self, top: Path) -> None:
        self.path = top / "model"
        self.path.mkdir(parents=True)
        self.home = top / "home"
        self.folder = self.home / "trials" / "7" / "checkpoints"
        self._attempt = 1

    def write(self, files: dict[str, bytes]) -> None:
        for name, data in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def save(self) -> None:
        checkpoint_records.save(self.saver(), str(self.path), None, {})

    def saver(self, index: int = 0) -> checkpoint_records.Saver:
        return checkpoint_records.Saver(str(self.folder), "worker", index, self._attempt)

    def restored(self) -> dict[str, bytes]:
        """The newest checkpoint as restored in a new attempt."""
        self._attempt += 1
        return contents(Path(checkpoint_copies.latest(self.saver()) or ""))

    def lines(self) -> list[list[Any]]:
        record = checkpoint_records.records(str(self.folder))[0][1]
        path = path_in_store(str(self.home / "blobs"), record["manifest"])
        files: list[list[Any]] = json.loads(Path(path).read_text())["files"]
        return files

    def named(self) -> set[str]:
        """The blobs that contain the files of the newest checkpoint."""
        return {line[2] for line in self.lines()}

    def blob(self, digest: str) -> Path:
        return Path(path_in_store(str(self.home / "blobs"), digest))

    def blobs(self) -> dict[str, int]:
        """The sizes of all blobs except manifests. Each blob has the digest in its name."""
        stored_contents = {}
        for path in (self.home / "blobs").glob("??/*"):
            data = path.read_bytes()
            assert kind_of(path.name).digest_of(data) == path.name
            if not data.startswith(b'{"files":['):
                stored_contents[path.name] = len(data)
        return stored_contents


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return Model(tmp_path)


def crowd(text: str, count: int = CROWD, size: int = 1000) -> dict[str, bytes]:
    return {f"{n % 3}/{n}": f"{text} {n} ".encode().ljust(size, b".") for n in range(count)}


def test_many_small_files_are_one_blob_and_are_restored_unchanged(model: Model) -> None:
    files = {**crowd("first"), "empty": b"", "alike": b"x" * 50, "likewise": b"x" * 50}
    large = {"weights": os.urandom(SMALL + 1)}
    model.write({**files, **large})
    (model.path / "1" / "1").chmod(0o755)
    (model.path / "hollow").mkdir()
    model.save()
    assert sorted(model.blobs().values()) == [CROWD * 1000 + 50, SMALL + 1]
    assert model.restored() == {**files, **large}
    checkpoint = Path(checkpoint_copies.latest(model.saver()) or "")
    assert os.access(checkpoint / "1" / "1", os.X_OK)
    assert not os.access(checkpoint / "alike", os.X_OK)
    assert (checkpoint / "hollow").is_dir()


def test_few_files_are_separate_blobs(model: Model) -> None:
    model.write(crowd("few", 10))
    model.save()
    assert len(model.blobs()) == 10
    assert all(len(line) == 4 for line in model.lines())


def test_unchanged_or_renamed_files_are_not_stored_again(model: Model) -> None:
    model.write(crowd("first"))
    model.save()
    before = model.blobs()
    model.save()
    (model.path / "1" / "1").rename(model.path / "renamed")
    model.save()
    assert model.blobs() == before
    assert model.restored()["renamed"] == crowd("first")["1/1"]


def test_only_changed_files_are_stored(model: Model) -> None:
    model.write(crowd("first"))
    model.save()
    before = model.blobs()
    model.write({"0/0": b"changed"})
    model.save()
    assert [size for name, size in model.blobs().items() if name not in before] == [7]
    assert model.restored() == {**crowd("first"), "0/0": b"changed"}


def test_equal_files_of_another_trial_are_stored_once(model: Model) -> None:
    model.write(crowd("first"))
    model.save()
    before = model.blobs()
    other = str(model.home / "trials" / "8" / "checkpoints")
    checkpoint_records.save(
        checkpoint_records.Saver(other, "worker", 0, 1), str(model.path), None, {}
    )
    assert model.blobs() == before


def test_the_remaining_files_of_a_mostly_unused_bundle_are_stored_again(model: Model) -> None:
    model.write(crowd("first"))
    model.save()
    [first] = model.blobs()
    model.write(dict(list(crowd("second").items())[: CROWD // 2]))
    model.save()
    assert first in model.named(), "half of it is needed"
    model.write(dict(list(crowd("third").items())[: CROWD // 2 + 1]))
    model.save()
    assert first not in model.named()
    sizes = model.blobs()
    assert sum(sizes[name] for name in model.named()) == CROWD * 1000
    assert model.restored()[f"0/{CROWD - 1}"] == crowd("first")[f"0/{CROWD - 1}"]


def test_few_remaining_files_become_separate_blobs(model: Model) -> None:
    model.write(crowd("first"))
    model.save()
    for name in list(crowd("first"))[3:]:
        (model.path / name).unlink()
    model.save()
    assert sorted(len(line) for line in model.lines()) == [4, 4, 4]
    assert model.restored() == dict(list(crowd("first").items())[:3])


def test_separate_blobs_stay_separate_when_files_are_added(model: Model) -> None:
    model.write(crowd("first", 10))
    model.save()
    model.write(crowd("first"))
    model.save()
    assert sorted(model.blobs().values()) == [*[1000] * 10, (CROWD - 10) * 1000]
    assert model.restored() == crowd("first")


def test_a_missing_bundle_is_created_again(model: Model) -> None:
    model.write(crowd("first"))
    model.save()
    [bundle] = model.blobs()
    model.blob(bundle).unlink()
    model.save()
    assert model.restored() == crowd("first")


def test_very_many_files_are_several_blobs_of_limited_size(model: Model) -> None:
    files = {str(n): os.urandom(200_000) for n in range(100)}
    model.write(files)
    model.save()
    sizes = list(model.blobs().values())
    assert len(sizes) == 3
    assert max(sizes) < (8 << 20) + SMALL
    assert model.restored() == files


def test_interpreters_with_and_without_blake3_find_each_others_files(model: Model) -> None:
    model.write(crowd("first"))
    model.save()
    program = (
        "import sys; sys.modules['blake3'] = None\n"  # importing it fails
        "from windlass.worker.checkpoints import copies, records\n"
        "saver = records.Saver(sys.argv[1], 'worker', 0, 50)\n"
        "print(copies.latest(saver)); records.save(saver, sys.argv[2], None, {})\n"
    )
    command = [sys.executable, "-c", program, str(model.folder), str(model.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert contents(Path(done.stdout.strip())) == crowd("first")
    assert {len(name) for name in model.named()} == {64}
    assert model.restored() == crowd("first")
    model.save()
    assert model.restored() == crowd("first")


def test_parts_may_contain_the_same_file_in_different_bundles(model: Model) -> None:
    for rank in range(2):
        (model.folder.parent / f"worker-{rank}" / "1").mkdir(parents=True)
    for rank in range(2):
        part = Model(model.path.parent / f"rank-{rank}")
        files = {f"{rank}-{name.replace('/', '-')}": data for name, data in crowd("x").items()}
        part.write({**files, "config": b"the same"})
        shards.save(model.saver(rank), str(part.path), 5, {}, rank, 2)
    restored = model.restored()
    assert len(restored) == 2 * CROWD + 1
    assert (restored["config"], restored["1-0-0"]) == (b"the same", crowd("x")["0/0"])


def test_a_file_that_differs_between_ranks_is_refused_in_bundles_too(model: Model) -> None:
    for rank in range(2):
        (model.folder.parent / f"worker-{rank}" / "1").mkdir(parents=True)
        part = Model(model.path.parent / f"rank-{rank}")
        files = {f"{rank}-{name.replace('/', '-')}": data for name, data in crowd("x").items()}
        part.write({**files, "config": f"of {rank}".encode()})
        if rank == 0:
            shards.save(model.saver(rank), str(part.path), 5, {}, rank, 2)
    with pytest.raises(ValueError, match=r"'config' of rank 1 differs from that of rank 0"):
        shards.save(model.saver(1), str(part.path), 5, {}, 1, 2)


def test_a_truncated_bundle_is_reported_with_the_lost_file(model: Model) -> None:
    model.write(crowd("first"))
    model.save()
    [bundle] = model.blobs()
    os.truncate(model.blob(bundle), CROWD * 1000 - 1)
    with pytest.raises(RestoreError, match="is damaged in the store"):
        model.restored()
    model.blob(bundle).parents[1].joinpath(f".damaged-{bundle}").unlink()
    with pytest.raises(RestoreError, match="is missing from the store"):
        model.restored()


_NAMES = st.sampled_from([f"n{n}" for n in range(60)])
_DATA = st.sampled_from([b"", b"a", b"b", b"ab" * 500, b"c" * 3000])


@given(
    st.lists(
        st.tuples(st.dictionaries(_NAMES, _DATA, max_size=60), st.sets(_NAMES, max_size=50)),
        min_size=1,
        max_size=4,
    )
)
def test_any_sequence_of_writes_and_deletions_is_restored(
    changes: list[tuple[dict[str, bytes], set[str]]],
) -> None:
    with tempfile.TemporaryDirectory() as top:
        model = Model(Path(top))
        now = crowd("first", 35)
        model.write(now)
        for written, removed in changes:
            model.write(written)
            now |= written
            for name in removed & now.keys():
                (model.path / name).unlink()
                del now[name]
            model.save()
            assert model.restored() == now
        model.blobs()
