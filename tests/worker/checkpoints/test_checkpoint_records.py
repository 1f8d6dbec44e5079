"""Checkpoints are complete or absent after any kill, and any name works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from windlass.worker.blobs import writer as blob_writer
from windlass.worker.blobs.digest import kind_of


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make this process rank 0 of a trial, and return the folder of its checkpoints."""
    folder = tmp_path / "home" / "trials" / "7" / "checkpoints"
    for name, text in {
        "TRIAL_ID": "7", "ROLE": "worker", "INDEX": "0", "ATTEMPT": "1",
        "RANK": "0", "WORLD_SIZE": "2", "CHECKPOINTS": str(folder),
    }.items():  # fmt: skip
        monkeypatch.setenv(f"WINDLASS_{name}", text)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return folder


def saved() -> Path:
    """The path of the restored newest checkpoint."""
    return Path(wl.latest_checkpoint() or "")


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def blobs_of(folder: Path) -> list[Path]:
    """Return the blobs of the store, and check that no partial file exists."""
    store = folder.parents[2] / "blobs"
    assert [path.name for path in store.iterdir() if path.name.startswith(".saving")] == []
    return sorted(store.glob("??/*"))


def test_outside_of_a_trial_saving_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("WINDLASS_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    assert (wl.rank(), wl.world_size()) == (0, 1)
    assert wl.save_checkpoint("not-there.pt", step=3) is None
    assert wl.latest_checkpoint() is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_saved_under_its_name_and_later_writes_do_not_change_it(
    trial: Path, tmp_path: Path
) -> None:
    assert wl.latest_checkpoint() is None
    model = tmp_path / "model.pt"
    model.write_bytes(b"first")
    uid = wl.save_checkpoint(model, step=100, metadata={"note": "warm"})
    assert saved().name == "model.pt"
    model.write_bytes(b"other")  # in place, as a link would show
    assert saved().read_bytes() == b"first"
    record = json.loads((trial / "1.json").read_text())
    assert record.pop("time") > 1e9
    assert len(record.pop("manifest")) == 64
    assert record == {
        "uid": uid, "name": "model.pt", "is_folder": False, "step": 100,
        "metadata": {"note": "warm"}, "role": "worker", "index": 0, "attempt": 1,
    }  # fmt: skip
    assert wl.save_checkpoint(str(model)) != uid
    assert saved().read_bytes() == b"other"
    assert visible(trial) == ["1.json", "2.json"]


def test_a_restored_copy_can_be_changed_without_harm(
    trial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.pt"
    model.write_bytes(b"as it was")
    wl.save_checkpoint(model)
    with saved().open("r+b") as file:
        file.write(b"scribble!")
    saved().chmod(0o777)
    monkeypatch.setenv("WINDLASS_ATTEMPT", "2")
    assert saved().read_bytes() == b"as it was"


def test_restoring_a_newer_checkpoint_replaces_the_previous_copy(
    trial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.pt"
    model.write_bytes(b"1")
    wl.save_checkpoint(model)
    saver_environment = saved()  # as in the environment of a process that started with it
    monkeypatch.setenv("WINDLASS_CHECKPOINT", str(saver_environment))
    paths = []
    for text in (b"2", b"3"):
        model.write_bytes(text)
        wl.save_checkpoint(model)
        paths.append(saved())
        assert saved().read_bytes() == text
    assert [path.exists() for path in (saver_environment, *paths)] == [True, False, True]


def test_a_checkpoint_with_a_reused_number_is_not_confused_with_the_deleted_one(
    trial: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model.pt"
    for text in (b"deleted", b"newest"):
        model.write_bytes(text)
        wl.save_checkpoint(model)
        assert saved().read_bytes() == text
        if text == b"deleted":
            (trial / "1.json").unlink()  # as the server does
    assert visible(trial) == ["1.json"]


def test_a_checkpoint_replaced_during_the_lookup_is_not_missed(trial: Path, tmp_path: Path) -> None:
    """As with keep_last=1: a checkpoint exists at any time, and it is found."""
    model = tmp_path / "model.pt"
    model.write_bytes(b"older")
    wl.save_checkpoint(model)
    older = trial / "1.json"
    is_due = True

    def replace_it(event: str, args: tuple[Any, ...]) -> None:
        """Runs before any file is opened, which at first is the record that was just listed."""
        nonlocal is_due
        if is_due and event == "open" and args[0] == str(older):
            is_due = False
            model.write_bytes(b"newest")
            wl.save_checkpoint(model)
            older.unlink()

    sys.addaudithook(replace_it)
    assert saved().read_bytes() == b"newest"
    assert visible(trial) == ["2.json"]


def test_a_folder_is_saved_with_all_its_contents(trial: Path, tmp_path: Path) -> None:
    folder = tmp_path / "step-10"
    (folder / "shards").mkdir(parents=True)
    (folder / "assets").mkdir()
    (folder / "shards" / "0.bin").write_bytes(os.urandom(5_000_000))
    (folder / "empty").touch()
    (folder / "run.sh").write_text("true")
    (folder / "run.sh").chmod(0o700)
    (folder / "odd\udcff name").write_text("odd")
    (folder / "checkpoint.json").write_text("the user's own")
    (folder / "latest").symlink_to("shards")
    (folder / "gone").symlink_to("not-there")
    wl.save_checkpoint(f"{folder}/")
    kept = saved()
    assert kept.name == "step-10"
    assert (kept / "checkpoint.json").read_text() == "the user's own"
    for inner in ("shards", "latest"):
        assert (kept / inner / "0.bin").read_bytes() == (folder / "shards" / "0.bin").read_bytes()
        assert not (kept / inner).is_symlink()  # a link would lead to the overwritten file
    assert not (kept / "gone").exists()
    assert list((kept / "assets").iterdir()) == []
    assert (kept / "empty").read_bytes() == b""
    assert os.access(kept / "run.sh", os.X_OK)
    assert (kept / "odd\udcff name").read_text() == "odd"


def test_an_unchanged_file_is_stored_once(trial: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "embedding").write_bytes(os.urandom(3_000_000))
    (folder / "copy").write_bytes((folder / "embedding").read_bytes())
    (folder / "head").write_bytes(b"1")
    wl.save_checkpoint(folder)
    before = set(blobs_of(trial))
    (folder / "head").write_bytes(b"2")
    wl.save_checkpoint(folder)
    new = set(blobs_of(trial)) - before
    assert len(before) == 3  # two files, and their list
    assert min(path.stat().st_size for path in new) == 1
    assert len(new) == 2
    assert (saved() / "head").read_bytes() == b"2"


def test_a_late_difference_in_a_file_of_equal_size_is_detected(trial: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    data = bytearray(os.urandom(3_000_000))
    for _ in range(2):
        model.write_bytes(data)
        wl.save_checkpoint(model)
        assert saved().read_bytes() == data
        data[-1] ^= 1
    for blob in blobs_of(trial):
        assert kind_of(blob.name).digest_of(blob.read_bytes()) == blob.name


@pytest.mark.parametrize(
    "environ", [{"WINDLASS_RANK": "1"}, {"WINDLASS_RANK": None}, {"LOCAL_RANK": "3"}]
)
def test_other_ranks_than_0_save_nothing_and_read_the_same(
    trial: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str | None],
) -> None:
    (tmp_path / "model.pt").write_bytes(b"of rank 0")
    wl.save_checkpoint(tmp_path / "model.pt")
    kept = wl.latest_checkpoint()
    for name, text in environ.items():
        monkeypatch.delenv(name, raising=False)
        if text is not None:
            monkeypatch.setenv(name, text)
    assert wl.save_checkpoint(tmp_path / "not-even-there") is None
    assert wl.latest_checkpoint() == kept
    assert wl.world_size() == 2


def test_a_service_has_no_rank(trial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WINDLASS_RANK")
    assert wl.rank() == -1


def test_a_missing_file_is_an_error_and_leaves_nothing(trial: Path, tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"There is no file or folder '.*no-such.pt' to save"
    ):
        wl.save_checkpoint(tmp_path / "no-such.pt")
    with pytest.raises(wl.NotFound, match="Write it before"):
        wl.save_checkpoint(tmp_path / "no-such.pt")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(wl.InvalidArgument, match="neither a file nor a folder"):
        wl.save_checkpoint(tmp_path / "pipe")
    assert visible(trial) == []
    assert blobs_of(trial) == []


def test_a_file_that_changes_while_it_is_saved_is_refused(trial: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "a").write_bytes(b"a" * 100)
    wl.save_checkpoint(folder)
    kept, stored = visible(trial), blobs_of(trial)

    def write_in_place() -> None:
        with (folder / "a").open("r+b") as file:
            file.write(b"b")

    changes: list[Callable[[], object]] = [
        write_in_place,
        lambda: (folder / "a").write_bytes(b"longer" * 100),
        lambda: (folder / "new").write_bytes(b"new"),
        lambda: (folder / "new").rename(folder / "newer"),
        lambda: (folder / "newer").unlink(),
    ]
    for change in changes:
        with during_saving(change), pytest.raises(wl.Conflict, match="changed while it was") as why:
            wl.save_checkpoint(folder)
        assert isinstance(why.value, RuntimeError)
        assert visible(trial) == kept
        assert blobs_of(trial) == stored
    wl.save_checkpoint(folder)
    assert saved().joinpath("a").read_bytes() == b"longer" * 100


@contextmanager
def during_saving(act: Callable[[], object]) -> Iterator[None]:
    """Run a function as soon as the first file of a checkpoint is being read."""
    is_done = False

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal is_done
        if (
            frame.f_code is blob_writer.BlobWriter.read_small.__code__
            and event == "return"
            and not is_done
        ):
            is_done = True
            act()
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)
    assert is_done


class Counted:
    """An integer type of another library, such as NumPy or PyTorch."""

    def __index__(self) -> int:
        return 7


def test_a_step_is_any_integer_and_nothing_else(trial: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.pt"
    model.write_bytes(b"x")
    wl.save_checkpoint(model, step=Counted())
    assert json.loads((trial / "1.json").read_text())["step"] == 7
    wrong: Any
    for wrong in (1.5, float("nan"), "7", {}):
        with pytest.raises(TypeError, match=r"step: .* is not a whole number") as why:
            wl.save_checkpoint(model, step=wrong)
        assert isinstance(why.value, wl.InvalidArgument)
    for wrong in (-1, 2**63):
        with pytest.raises(wl.InvalidArgument, match=r"step: .* is not between 0"):
            wl.save_checkpoint(model, step=wrong)
    for wrong in ({1: 2}, {"": 1}, {str(n): n for n in range(101)}, {"long": "x" * 70_000}):
        with pytest.raises(wl.InvalidArgument, match=r"metadata: .* at most 100 names"):
            wl.save_checkpoint(model, metadata=wrong)
    for wrong in ({"x": object()}, {"x": {1, 2}}, {"x": "\ud800"}, 5, ["x"]):
        with pytest.raises(TypeError, match=r"metadata: .*") as why:
            wl.save_checkpoint(model, metadata=wrong)
        assert isinstance(why.value, wl.InvalidArgument)
    for wrong in (5, None, "a\0b"):
        with pytest.raises(wl.InvalidArgument, match=r"path: .* is not a path"):
            wl.save_checkpoint(wrong)
    assert visible(trial) == ["1.json"]


class Scalar:
    """A number type of another library, such as a PyTorch loss."""

    def item(self) -> float:
        return float("nan")


def test_numbers_of_any_type_can_be_metadata(trial: Path, tmp_path: Path) -> None:
    """Training must not fail because of the type of a loss."""
    (tmp_path / "model").touch()
    noted = {"loss": Scalar(), "all": [1, float("-inf"), {"deep": float("nan")}]}
    wl.save_checkpoint(tmp_path / "model", metadata=noted)
    record = json.loads((trial / "1.json").read_text())
    assert record["metadata"] == {"loss": "nan", "all": [1, "-inf", {"deep": "nan"}]}


def test_a_damaged_checkpoint_is_skipped(trial: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.pt"
    model.write_bytes(b"good")
    wl.save_checkpoint(model)
    good = wl.latest_checkpoint()
    (trial / "2").mkdir()
    (trial / "3.json").write_text('{"name": "../../../../etc/passwd"}')
    (trial / "4.json").write_text('{"name": "x", "manifest": "../../../../etc/passwd"}')
    (trial / "5.json").mkdir()
    os.mkfifo(trial / "6.json")  # not waited for
    (trial / "notes").mkdir()
    assert wl.latest_checkpoint() == good
    wl.save_checkpoint(model)
    assert "7.json" in visible(trial)


def test_the_tenth_is_newer_than_the_ninth(trial: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.pt"
    for number in range(11):
        model.write_text(str(number))
        wl.save_checkpoint(model)
    assert saved().read_text() == "10"


def test_concurrent_threads_each_save_their_checkpoint(trial: Path, tmp_path: Path) -> None:
    def save(number: int) -> None:
        mine = tmp_path / f"{number}.pt"
        mine.write_text(str(number))
        wl.save_checkpoint(mine)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = sorted(json.loads(path.read_text())["name"] for path in trial.glob("*.json"))
    assert kept == [f"{number}.pt" for number in range(8)]
    assert visible(trial) == [f"{n}.json" for n in range(1, 9)]
    assert len(blobs_of(trial)) == 16


@pytest.mark.parametrize(("files", "stride"), [(2, 1), (33, 13)], ids=["few", "crowd"])
@pytest.mark.thorough
def test_a_kill_at_any_line_leaves_the_older_or_the_newer_checkpoint_whole(
    tmp_path: Path, files: int, stride: int
) -> None:
    """Processes save one after the other. Each is killed some lines later than the previous one."""
    words = [str(tmp_path), str(files), str(stride)]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED_AT_EVERY_LINE), *words],
        capture_output=True,
        text=True,
        timeout=1200,  # on a busy disk
    )
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert output["older"] > 50
    assert output["newer"] > 0  # killed after it was in place


KILLED_AT_EVERY_LINE = """
    import json, os, signal, sys
    from windlass.worker.blobs import bundle_small_files, scan_files, writer
    from windlass.worker.checkpoints import copies, records

    ours = {module.__file__ for module in (bundle_small_files, records, scan_files, writer)}
    top = sys.argv[1]
    names = [str(number) for number in range(int(sys.argv[2]))]
    source = os.path.join(top, "model")
    os.mkdir(source)

    def write(text):
        for name in names:
            with open(os.path.join(source, name), "w") as file:
                file.write(text)

    def read(path):
        return {open(os.path.join(path, name)).read() for name in names}

    def save(attempt):
        records.save(of(attempt), source, None, {})

    def of(attempt):
        return records.Saver(folder, "worker", 0, attempt)

    def latest():
        return read(copies.latest(of(4)))

    def save_and_die(attempt, after):
        lines = 0

        def trace(frame, event, arg):
            nonlocal lines
            if frame.f_code.co_filename not in ours:
                return None
            if event == "line":
                lines += 1
                if lines > after:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        save(attempt)

    ends = {"older": 0, "newer": 0}
    for after in range(0, 10_000, int(sys.argv[3])):
        home = os.path.join(top, f"killed-after-{after}")
        folder = os.path.join(home, "trials", "7", "checkpoints")
        write("older")
        save(1)
        write("newer")
        pid = os.fork()
        if pid == 0:
            try:
                save_and_die(2, after)
            finally:
                os._exit(0)
        if os.waitpid(pid, 0)[1] == 0:
            break
        [found] = latest()
        ends[found] += 1
        # The next attempt saves as if nothing had been, and leaves nothing of the killed one.
        write("next")
        save(3)
        assert latest() == {"next"}
        assert not [name for name in os.listdir(f"{home}/blobs") if name.startswith(".saving")]
        records.clear(folder)
        writer.remove_staging(f"{home}/blobs", os.path.basename(os.path.dirname(folder)))
        assert all(name.endswith(".json") for name in os.listdir(folder)), os.listdir(folder)
    print(json.dumps(ends))
"""
