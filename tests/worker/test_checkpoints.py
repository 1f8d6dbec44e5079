"""Checkpoints: whole or not there, whatever kills the one that saves; and names that never fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

import windlass as wl


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process as rank 0 of a trial; the folder of its checkpoints."""
    folder = tmp_path / "checkpoints"
    for name, text in {
        "TRIAL_ID": "7", "ROLE": "worker", "INDEX": "0", "ATTEMPT": "1",
        "RANK": "0", "WORLD_SIZE": "2", "CHECKPOINTS": str(folder),
    }.items():  # fmt: skip
        monkeypatch.setenv(f"WINDLASS_{name}", text)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return folder


def test_outside_of_a_trial_nothing_is_done_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("WINDLASS_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    assert (wl.rank(), wl.world_size()) == (0, 1)
    assert wl.save_checkpoint("not-there.pt", step=3) is None
    assert wl.latest_checkpoint() is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_kept_under_its_name_and_later_writing_does_not_touch_it(
    trial: Path, tmp_path: Path
) -> None:
    assert wl.latest_checkpoint() is None
    model = tmp_path / "model.pt"
    model.write_bytes(b"first")
    kept = wl.save_checkpoint(model, step=100)
    assert kept == wl.latest_checkpoint() == str(trial / "1" / "data" / "model.pt")
    model.write_bytes(b"other")  # in place, as a link would show
    assert Path(kept).read_bytes() == b"first"
    record = json.loads((trial / "1" / "checkpoint.json").read_text())
    assert record.pop("time") > 1e9
    assert record == {
        "name": "model.pt", "step": 100, "role": "worker", "index": 0, "attempt": 1,
    }  # fmt: skip
    assert wl.save_checkpoint(str(model)) == wl.latest_checkpoint()
    assert Path(wl.latest_checkpoint() or "").read_bytes() == b"other"
    assert sorted(path.name for path in trial.iterdir()) == ["1", "2"]


def test_a_folder_is_kept_with_all_that_is_in_it(trial: Path, tmp_path: Path) -> None:
    saved = tmp_path / "step-10"
    (saved / "shards").mkdir(parents=True)
    (saved / "shards" / "0.bin").write_bytes(b"0" * 100_000)
    (saved / "checkpoint.json").write_text("the user's own")
    (saved / "latest").symlink_to("shards")
    (saved / "gone").symlink_to("not-there")
    kept = Path(wl.save_checkpoint(f"{saved}/") or "")
    assert kept == Path(wl.latest_checkpoint() or "")
    assert kept.name == "step-10"
    assert (kept / "checkpoint.json").read_text() == "the user's own"
    for folder in ("shards", "latest"):
        assert (kept / folder / "0.bin").read_bytes() == b"0" * 100_000
        assert not (kept / folder).is_symlink()  # a link would lead to what is overwritten
    assert not (kept / "gone").exists()


@pytest.mark.parametrize(
    "environ", [{"WINDLASS_RANK": "1"}, {"WINDLASS_RANK": None}, {"LOCAL_RANK": "3"}]
)
def test_others_than_rank_0_keep_nothing_and_read_the_same(
    trial: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str | None],
) -> None:
    (tmp_path / "model.pt").write_bytes(b"of rank 0")
    kept = wl.save_checkpoint(tmp_path / "model.pt")
    for name, text in environ.items():
        monkeypatch.delenv(name, raising=False)
        if text is not None:
            monkeypatch.setenv(name, text)
    assert wl.save_checkpoint(tmp_path / "not-even-there") is None
    assert wl.latest_checkpoint() == kept
    assert wl.world_size() == 2


def test_one_that_serves_has_no_rank(trial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WINDLASS_RANK")
    assert wl.rank() == -1


def test_what_is_not_there_is_an_error_and_leaves_nothing(trial: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such"):
        wl.save_checkpoint(tmp_path / "no-such.pt")
    assert list(trial.iterdir()) == []


class Counted:
    """A whole number of somebody else's, as those of NumPy and PyTorch are."""

    def __index__(self) -> int:
        return 7


def test_a_step_is_any_whole_number_and_nothing_else(trial: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.pt"
    model.write_bytes(b"x")
    wl.save_checkpoint(model, step=Counted())
    assert json.loads((trial / "1" / "checkpoint.json").read_text())["step"] == 7
    wrong: Any
    for wrong in (1.5, float("nan"), "7", {}):
        with pytest.raises(TypeError, match=r"step: .* is no whole number"):
            wl.save_checkpoint(model, step=wrong)
    assert [path.name for path in trial.iterdir()] == ["1"]


def test_what_was_spoilt_is_passed_over(trial: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.pt"
    model.write_bytes(b"good")
    good = wl.save_checkpoint(model)
    (trial / "2").mkdir()
    (trial / "3").mkdir()
    (trial / "3" / "checkpoint.json").write_text('{"name": "../../../../etc/passwd"}')
    (trial / "4").write_text("a file")
    (trial / "notes").mkdir()
    assert wl.latest_checkpoint() == good
    assert wl.save_checkpoint(model) == str(trial / "5" / "data" / "model.pt")


def test_a_pipe_in_the_place_of_a_record_is_not_waited_for(trial: Path, tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"good")
    kept = wl.save_checkpoint(tmp_path / "model.pt", step=1)
    (trial / "2" / "data").mkdir(parents=True)
    os.mkfifo(trial / "2" / "checkpoint.json")
    assert wl.latest_checkpoint() == kept


def test_the_tenth_is_newer_than_the_ninth(trial: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.pt"
    for number in range(11):
        model.write_text(str(number))
        wl.save_checkpoint(model)
    assert Path(wl.latest_checkpoint() or "").read_text() == "10"


def test_threads_that_save_at_once_each_keep_theirs(trial: Path, tmp_path: Path) -> None:
    def save(number: int) -> None:
        mine = tmp_path / f"{number}.pt"
        mine.write_text(str(number))
        wl.save_checkpoint(mine)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = sorted(path.name for path in trial.glob("*/data/*"))
    assert kept == [f"{number}.pt" for number in range(8)]
    assert sorted(path.name for path in trial.iterdir()) == [str(n) for n in range(1, 9)]


def test_killed_at_any_line_it_leaves_the_older_one_or_the_newer_one_whole(tmp_path: Path) -> None:
    """One process after the other saves, and is killed one line later than the one before."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED_AT_EVERY_LINE), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["older"] > 50
    assert told["newer"] > 0  # killed after it was in its place


KILLED_AT_EVERY_LINE = """
    import json, os, signal, sys
    from windlass.worker import checkpoints

    top = sys.argv[1]
    source = os.path.join(top, "model")
    os.mkdir(source)

    def write(text):
        for name in ("a", "b"):
            with open(os.path.join(source, name), "w") as file:
                file.write(text)

    def read(path):
        return {open(os.path.join(path, name)).read() for name in ("a", "b")}

    def of(attempt):
        return {"role": "worker", "index": 0, "attempt": attempt}

    def save_and_die(attempt, after):
        lines = 0

        def trace(frame, event, arg):
            nonlocal lines
            if frame.f_code.co_filename != checkpoints.__file__:
                return None
            if event == "line":
                lines += 1
                if lines > after:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        checkpoints.save(folder, source, of(attempt))

    ends = {"older": 0, "newer": 0}
    for after in range(10_000):
        folder = os.path.join(top, f"killed-after-{after}")
        write("older")
        checkpoints.save(folder, source, of(1))
        write("newer")
        pid = os.fork()
        if pid == 0:
            try:
                save_and_die(2, after)
            finally:
                os._exit(0)
        if os.waitpid(pid, 0)[1] == 0:
            break
        [found] = read(checkpoints.latest(folder))
        ends[found] += 1
        # The next attempt saves as if nothing had been, and leaves nothing of the killed one.
        write("next")
        assert read(checkpoints.save(folder, source, of(3))) == {"next"}
        assert read(checkpoints.latest(folder)) == {"next"}
        assert all(name.isdecimal() for name in os.listdir(folder)), os.listdir(folder)
    print(json.dumps(ends))
"""
