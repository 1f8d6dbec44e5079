"""Files under `wl.output_dir()` are kept, listed while they are written, and downloaded."""

from __future__ import annotations

import json
import os
from pathlib import Path

import output_functions
import pytest

import windlass as wl
from harness import PATIENCE, Project, eventually
from replicas import LITTLE, shell
from server_requests import API, Server


def names(trial: wl.Trial[object], *pattern: str) -> list[str]:
    """The artifacts of a trial by name."""
    return [artifact.name for artifact in trial.list_artifacts(*pattern)]


def look(folder: Path) -> dict[str, bytes]:
    """The contents of every file below a folder, by relative path."""
    return {
        os.path.relpath(os.path.join(base, name), folder): Path(base, name).read_bytes()
        for base, _, files in os.walk(folder)
        for name in files
    }


def test_files_are_listed_while_the_trial_runs_and_kept_when_it_is_over(
    home: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    files = {"model.txt": "weights", "plots/loss.svg": "<svg/>", "plots/a/b": ""}
    trial = output_functions.leave.submit(files, str(gate))
    eventually(lambda: len(names(trial)) == 3, "all files are listed")
    assert not trial.refresh().is_finished
    assert names(trial) == ["model.txt", "plots/a/b", "plots/loss.svg"]
    assert look(trial.download_artifacts(tmp_path / "live")) == {
        name: text.encode() for name, text in files.items()
    }
    gate.touch()
    folder = Path(trial.result(timeout=PATIENCE))
    assert names(trial, "*.svg") == ["plots/loss.svg"]
    [model] = trial.list_artifacts("model.txt")
    assert (model.role, model.index, model.size) == ("main", 0, 7)
    assert abs(model.modified.timestamp() - (folder / "model.txt").stat().st_mtime) < 0.001
    place = trial.download_artifacts(tmp_path / "deep" / "results")
    assert place == tmp_path / "deep" / "results"
    assert look(place) == {name: text.encode() for name, text in files.items()}
    # A downloaded file has the original modification time, which identifies it.
    assert abs((place / "model.txt").stat().st_mtime - model.modified.timestamp()) < 0.001


def test_a_trial_without_outputs_has_no_artifacts(home: Path, tmp_path: Path) -> None:
    trial = wl.Job(wl.Command(["true"]), executor=LITTLE).submit().wait(timeout=PATIENCE)
    assert names(trial) == []
    assert look(trial.download_artifacts(tmp_path / "none")) == {}


def test_artifacts_are_deleted_with_their_trial(home: Path) -> None:
    trial = output_functions.leave.submit({"model.txt": "weights"})
    folder = Path(trial.result(timeout=PATIENCE))
    assert (folder / "model.txt").exists()
    trial.delete()
    eventually(lambda: not folder.exists(), "its files are gone")
    with pytest.raises(wl.NotFound):
        names(trial)


def test_the_folder_is_the_same_after_a_restart(home: Path) -> None:
    trial = output_functions.leave_and_die_once.submit()
    assert trial.result(timeout=PATIENCE) == ["first"]
    assert trial.restarts == 1
    assert names(trial) == ["first"]


def test_a_command_gets_the_folder_in_a_variable(home: Path, tmp_path: Path) -> None:
    job = wl.Job(shell('echo hello > "$WINDLASS_OUTPUT_DIR/said"'), executor=LITTLE)
    trial = job.submit().wait(timeout=PATIENCE)
    assert look(trial.download_artifacts(tmp_path / "out")) == {"said": b"hello\n"}


def test_every_replica_has_its_own_folder(home: Path, tmp_path: Path) -> None:
    trial = output_functions.leave_by_rank.submit().wait(timeout=PATIENCE)
    role = trial.replicas[0].role
    listed = [
        (artifact.role, artifact.index, artifact.name) for artifact in trial.list_artifacts("*.txt")
    ]
    assert listed == [(role, 0, "rank.txt"), (role, 1, "rank.txt")]
    assert [artifact.index for artifact in trial.list_artifacts("rank.txt", index=1)] == [1]
    assert look(trial.download_artifacts(tmp_path / "all", "rank.txt")) == {
        f"{role}-0/rank.txt": b"0",
        f"{role}-1/rank.txt": b"1",
    }
    # A single selected replica has the same path as in a download of all.
    assert look(trial.download_artifacts(tmp_path / "one", "rank.txt", index=1)) == {
        f"{role}-1/rank.txt": b"1"
    }
    assert look(trial.download_tensorboard(tmp_path / "board")) == {
        f"{role}-0/events.out.tfevents.1": b"events of 0",
        f"{role}-1/events.out.tfevents.1": b"events of 1",
    }
    with pytest.raises(wl.InvalidArgument, match="has no role 'chief'"):
        list(trial.list_artifacts(role="chief"))


def test_unusual_files_are_listed_and_downloaded_or_skipped(home: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secrets" / "secret"
    secret.parent.mkdir()
    secret.write_text("not of the outputs")
    trial = output_functions.leave_odd.submit(str(secret)).wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
    deep = [artifact for artifact in trial.list_artifacts("e*") if artifact.problem]
    odd = {os.fsdecode(name): name for name in (b"not-utf8-\xff", b"new\nline", b"'\"$(x)")}
    expected = {
        "plain": b"plain",
        "folder/inner": b"inner",
        "link-in": b"inner",
        "-dash": b"-dash",
        "*[a]?": b"*[a]?",
        "café": "café".encode(),
        **odd,
    }
    assert {os.fsdecode(artifact.path) for artifact in trial.list_artifacts()} - {
        os.fsdecode(artifact.path) for artifact in deep
    } == set(expected)
    assert len(set(names(trial))) == len(expected) + len(deep)
    with pytest.raises(wl.WindlassError, match=r"1 of 10 could not be downloaded.*too long"):
        trial.download_artifacts(tmp_path / "out")
    assert look(tmp_path / "out") == expected
    assert look(trial.download_artifacts(tmp_path / "one", "*[a]?")) == {"*[a]?": b"*[a]?"}


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_reported_and_the_rest_is_downloaded(
    home: Path, tmp_path: Path
) -> None:
    trial = output_functions.leave.submit({"good": "good", "bad": "bad", "shut/in": "in"})
    folder = Path(trial.result(timeout=PATIENCE))
    (folder / "bad").chmod(0)
    (folder / "shut").chmod(0)
    try:
        with pytest.raises(wl.WindlassError, match=r"2 of 3 could not be downloaded.*Permission"):
            trial.download_artifacts(tmp_path / "out")
    finally:
        (folder / "shut").chmod(0o700)
    assert look(tmp_path / "out") == {"good": b"good"}


def test_existing_files_are_replaced_only_on_request(home: Path, tmp_path: Path) -> None:
    trial = output_functions.leave.submit({"a": "new", "b/c": "new"}).wait(timeout=PATIENCE)
    place = tmp_path / "place"
    place.mkdir()
    (place / "a").write_text("mine")
    (place / "other").write_text("mine, too")
    with pytest.raises(wl.Conflict, match="'a'"):
        trial.download_artifacts(place)
    assert look(place) == {"a": b"mine", "other": b"mine, too"}
    trial.download_artifacts(place, overwrite=True)
    assert look(place) == {"a": b"new", "b/c": b"new", "other": b"mine, too"}
    before = (place / "a").stat().st_ino
    trial.download_artifacts(place)  # everything is complete
    assert (place / "a").stat().st_ino == before
    (place / "a").unlink()
    (place / "a").mkdir()
    with pytest.raises(wl.Conflict, match="'a'"):
        trial.download_artifacts(place, overwrite=True)
    with pytest.raises(wl.InvalidArgument, match="is not a folder"):
        trial.download_artifacts(place / "other")


def test_nothing_is_written_through_a_link(home: Path, tmp_path: Path) -> None:
    trial = output_functions.leave.submit({"b/c": "new"}).wait(timeout=PATIENCE)
    elsewhere, place = tmp_path / "elsewhere", tmp_path / "place"
    elsewhere.mkdir()
    place.mkdir()
    (place / "b").symlink_to(elsewhere)
    with pytest.raises(wl.WindlassError, match="cannot be written"):
        trial.download_artifacts(place, overwrite=True)
    assert list(elsewhere.iterdir()) == []


def test_only_outputs_can_be_downloaded(home: Path) -> None:
    trial = output_functions.leave.submit({"a/b": "x"}).wait(timeout=PATIENCE)
    path = f"{API}/trials/{trial.id}/artifacts/fetch"
    for name in ("../1/log", "/etc/passwd", "a/../../1/log", "", ".", "a//b"):
        request = json.dumps({"files": [{"name": name}]}).encode()
        status, body = Server(home).ask("POST", path, request)
        assert (status, body[:1]) == (200, b"G"), (name, body)
    for cursor in ("garbage", "////", "a" * 8000, "bWFpbg", "é"):
        with pytest.raises(wl.InvalidArgument, match="cursor"):
            trial._transport.fetch("GET", f"/trials/{trial.id}/artifacts", query={"cursor": cursor})


def test_thousands_of_files_are_listed_and_downloaded(home: Path, tmp_path: Path) -> None:
    count = 3_000
    trial = output_functions.leave_many.submit(count).wait(timeout=PATIENCE)
    listed = names(trial)
    assert listed == sorted(f"{number % 7}/{number:05}.txt" for number in range(count))
    contents = look(trial.download_artifacts(tmp_path / "many"))
    assert contents == {f"{i % 7}/{i:05}.txt": str(i).encode() for i in range(count)}


def test_a_run_started_outside_of_windlass_also_has_artifacts(home: Path, project: Project) -> None:
    project.write(
        "notebook.py",
        """
        import windlass as wl

        with wl.start_trial("notebook") as trial:
            (wl.output_dir() / "note.txt").write_text("x")
        print(trial.id)
        """,
    )
    done = project.python("notebook.py")
    assert done.returncode == 0, done.stderr
    assert names(wl.get_trial(int(done.stdout))) == ["note.txt"]


def test_outside_of_a_trial_the_folder_is_not_packaged(home: Path, project: Project) -> None:
    project.write(
        "train.py",
        """
        import windlass as wl

        @wl.run(cpus=0.05)
        def listed():
            import os
            return sorted(os.listdir())

        (wl.output_dir() / "a").write_text("x")
        (wl.tensorboard_dir() / "b").write_text("x")
        print(wl.output_dir(), wl.tensorboard_dir())
        print(listed())
        """,
    )
    done = project.python("train.py")
    assert done.returncode == 0, done.stderr
    folder = project.path / "windlass-outputs"
    assert done.stdout.splitlines()[0] == f"{folder} {folder / 'tensorboard'}"
    assert "windlass-outputs" not in done.stdout.splitlines()[1], done.stdout


def test_outside_of_a_trial_the_folder_always_works(project: Project) -> None:
    project.write(
        "nowhere.py",
        """
        import os
        import windlass as wl

        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir("../gone")
        (wl.output_dir() / "a").write_text("x")
        print(wl.tensorboard_dir().is_dir(), wl.output_dir() == wl.output_dir())
        """,
    )
    done = project.python("nowhere.py")
    assert done.stdout == "True True\n", done.stderr
