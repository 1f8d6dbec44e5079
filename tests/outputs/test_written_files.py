"""Files that an unmodified program writes to its working folder are artifacts of the trial."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually
from replicas import LINGER, LITTLE, shell

pytestmark = pytest.mark.finding("U8")


@pytest.fixture(autouse=True)
def code(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with two files and a link, which is the working directory."""
    project.write("table.csv", "a\n")
    project.write("kept.csv", "a\n")
    (project.path / "link.csv").symlink_to("table.csv")
    (project.path / ".git").mkdir()
    monkeypatch.chdir(project.path)
    return project


def run(script: str, *args: str | Path, wait: bool = True, **options: object) -> wl.Trial[object]:
    """Run a shell script in a copy of the project."""
    options = {"executor": LITTLE, "restart_policy": "Never", **options}
    trial = wl.Job(shell(script, *args), **options).submit()  # type: ignore[arg-type]
    return trial.wait(timeout=PATIENCE) if wait else trial


def names(trial: wl.Trial[object]) -> list[str]:
    """The names of a trial's artifacts."""
    return [artifact.name for artifact in trial.list_artifacts()]


def work_of(trial: wl.Trial[object]) -> Path:
    """The working folder of a trial with one replica."""
    return Path(trial.directory) / "main-0" / "work"


def test_new_and_changed_files_are_listed_while_the_trial_runs_and_afterwards(
    home: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    script = "echo b >> table.csv; mkdir plots; echo 1 > plots/loss.svg; echo w > model.pt\n"
    trial = run(script + LINGER, gate, wait=False)
    expected = ["model.pt", "plots/loss.svg", "table.csv"]
    eventually(lambda: names(trial) == expected, "the files are listed")
    assert not trial.refresh().is_finished
    gate.touch()
    trial.wait(timeout=PATIENCE)
    assert names(trial) == expected
    got = trial.download_artifacts(tmp_path / "got")
    assert (got / "table.csv").read_text() == "a\nb\n"
    assert (got / "plots" / "loss.svg").read_text() == "1\n"
    # the unchanged files of the project are gone
    eventually(lambda: not (work_of(trial) / "kept.csv").exists(), "unchanged code is removed")
    assert not (work_of(trial) / "link.csv").is_symlink()


def test_caches_and_special_files_are_neither_listed_nor_kept(home: Path) -> None:
    script = """
        mkdir -p .cache a/__pycache__ a/.hidden .hydra
        touch .cache/x a/__pycache__/x.pyc a/.hidden/x .hydra/config.yaml a/result
        mkfifo pipe; ln -s /etc/passwd out; ln -s a/result in; rm kept.csv
        printf x > "$(printf 'escape\\033[31m')"; touch -d 2020-01-01T00:00:00Z a/old
    """
    trial = run(script)
    assert names(trial) == [".hydra/config.yaml", "a/old", "a/result", "escape\x1b[31m", "in"]
    left = [work_of(trial) / name for name in (".cache", "a/__pycache__", "a/.hidden", "pipe")]
    eventually(lambda: not any(map(os.path.lexists, left)), "caches and pipes are removed")
    assert (work_of(trial) / "a" / "result").exists()


def test_the_same_name_in_both_folders_is_listed_once(home: Path, tmp_path: Path) -> None:
    script = 'echo output > "$WINDLASS_OUTPUT_DIR/model.pt"; echo working > model.pt'
    trial = run(script)
    assert names(trial) == ["model.pt"]
    assert (trial.download_artifacts(tmp_path / "got") / "model.pt").read_text() == "output\n"
    assert (work_of(trial) / "model.pt").exists()


def test_files_survive_a_restart_and_each_replica_has_its_own(home: Path, tmp_path: Path) -> None:
    again = "[ -e first ] && touch second || { touch first; exit 1; }"
    trial = run(again, restart_policy="OnFailure")
    assert (trial.state, trial.restarts) == ("SUCCEEDED", 1)
    assert names(trial) == ["first", "second"]
    failed = run("touch before; exit 3", replicas=2)
    assert failed.state == "FAILED"
    listed = [(artifact.index, artifact.name) for artifact in failed.list_artifacts()]
    assert set(listed) <= {(0, "before"), (1, "before")} and listed


def test_a_killed_supervisor_leaves_no_unchanged_code(home: Path) -> None:
    trial = run("touch new; sleep 60", wait=False)
    eventually(lambda: names(trial) == ["new"], "the file is listed")
    state = json.loads((Path(trial.directory) / "main-0" / "1" / "state.json").read_text())
    os.kill(state["supervisor"]["pid"], signal.SIGKILL)
    trial.wait(timeout=PATIENCE)
    assert trial.state == "FAILED"
    eventually(lambda: not (work_of(trial) / "kept.csv").exists(), "unchanged code is removed")
    assert names(trial) == ["new"]


def test_files_in_a_checkpoint_are_not_listed_again(home: Path, project: Project) -> None:
    project.write(
        "train.py",
        """
        from pathlib import Path

        import windlass as wl

        Path("saved.pt").write_text("weights")
        Path("changed.pt").write_text("weights")
        wl.save_checkpoint("saved.pt", step=1)
        wl.save_checkpoint("changed.pt", step=2)
        Path("part.pt").write_text("weights")
        wl.save_checkpoint("part.pt", step=3, shard=True)
        Path("changed.pt").write_text("new weights")
        """,
    )
    job = wl.Job(wl.PythonScript("train.py"), executor=LITTLE)
    trial = job.submit().wait(timeout=PATIENCE)
    assert names(trial) == ["changed.pt"]
    eventually(lambda: not (work_of(trial) / "saved.pt").exists(), "the copy is removed")


def test_data_above_the_project_is_deleted_and_results_are_kept(home: Path, tmp_path: Path) -> None:
    script = """
        mkdir -p ../data/MNIST ../results; echo x > ../data/MNIST/raw; echo 1 > ../results/a.csv
        echo log > ../train.log; ln -s /etc ../etc
    """
    trial = run(script)
    above = Path(trial.directory) / "main-0"
    assert names(trial) == ["parent/results/a.csv", "parent/train.log"]
    assert not (above / "data").exists()
    assert not (above / "etc").is_symlink()
    assert Path("/etc/passwd").exists()
    [moved, deleted] = [
        event.message for event in trial.events if event.reason.startswith(("F", "D"))
    ]
    assert "'results', 'train.log' above the project: kept" in moved
    assert "'data' above the project: deleted" in deleted
    assert 'volumes={"../data": "/path/to/data"}' in deleted


def test_a_volume_can_be_above_the_project(home: Path, tmp_path: Path, project: Project) -> None:
    data = tmp_path / "data"
    data.mkdir()
    trial = run("echo downloaded > ../data/x", volumes={"../data": data})
    assert trial.state == "SUCCEEDED", trial.message
    assert (data / "x").read_text() == "downloaded\n"
    assert names(trial) == []
    assert list(run("cat ../data/x", volumes={"../data": data}).logs()) == ["downloaded"]
    project.write("deep/a.py", "print(open('../../data/x').read().strip())")
    command = (BIN / "windlass", "run", "--volume", f"../../data={data}", "a.py")
    done = project.run(*command, cwd=project.path / "deep")
    assert done.stdout == "downloaded\n", done.stderr


@pytest.mark.parametrize("target", ["../outputs", "../work/a", "../../data", "../1"])
def test_a_volume_cannot_replace_files_of_windlass(home: Path, tmp_path: Path, target: str) -> None:
    with pytest.raises(wl.InvalidArgument, match="directly above it"):
        run("true", volumes={target: tmp_path})


def test_event_files_in_any_folder_are_found_for_tensorboard(home: Path, tmp_path: Path) -> None:
    script = """
        board="$WINDLASS_OUTPUT_DIR/tensorboard"; lightning=lightning_logs/version_0
        mkdir -p runs/a $lightning logs $board
        echo 1 > runs/a/events.out.tfevents.1; echo 2 > $lightning/events.out.tfevents.2
        echo text > logs/train.log; echo 3 > $board/events.out.tfevents.3
    """
    got = run(script).download_tensorboard(tmp_path / "board")
    found = sorted(str(path.relative_to(got)) for path in got.rglob("*") if path.is_file())
    assert found == [
        "events.out.tfevents.3",
        "lightning_logs/version_0/events.out.tfevents.2",
        "runs/a/events.out.tfevents.1",
    ]


def test_many_files_are_listed_in_pages_without_gaps(home: Path) -> None:
    trial = run("mkdir many; cd many; seq -f '%05g' 1 2500 | xargs touch")
    assert trial.state == "SUCCEEDED"
    assert names(trial) == [f"many/{number:05}" for number in range(1, 2501)]
