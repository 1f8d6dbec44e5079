"""Scripts in the style of each project's public examples run unmodified, and leave a true record.

The scripts in `scripts/` do not know Windlass. Each runs with `windlass run`, as a user's does.
"""

from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path

import pytest
from required_frameworks import needs

import windlass as wl
from harness import BIN, Project

SCRIPTS = Path(__file__).parent / "scripts"
EVENTS = "events.out.tfevents.*"

pytestmark = pytest.mark.finding("U8")


@pytest.fixture(autouse=True)
def scripts(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the scripts, which is the working directory."""
    shutil.copytree(SCRIPTS, project.path, dirs_exist_ok=True)
    monkeypatch.chdir(project.path)
    return project


def run(project: Project, *words: str) -> tuple[wl.Trial[object], str]:
    """Run a script with `windlass run`. Return its trial and its output."""
    done = project.run(BIN / "windlass", "run", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    [trial] = wl.list_trials(limit=1, sort_by="-id")
    assert trial.state == "SUCCEEDED"
    return trial, done.stdout


def check_artifacts(trial: wl.Trial[object], *patterns: str) -> None:
    """Check that each artifact matches one pattern, in the same order."""
    names = [artifact.name for artifact in trial.list_artifacts()]
    assert len(names) == len(patterns), names
    for name, pattern in zip(names, patterns, strict=True):
        assert fnmatch.fnmatchcase(name, pattern), names


@needs("sklearn")
def test_a_scikit_learn_script_with_process_pools(home: Path, project: Project) -> None:
    trial, output = run(project, "sklearn_digits.py")
    assert "accuracy 0.9" in output
    check_artifacts(trial, "digits.joblib")


@needs("torch")
def test_a_pytorch_script_with_workers_and_saved_models(home: Path, project: Project) -> None:
    trial, output = run(project, "torch_digits.py", "--save-model", "--lr", "0.5")
    assert "Train Epoch: 1 [0]" in output and "Test set: Average loss" in output
    assert trial.params == {"save_model": True, "lr": 0.5}
    check_artifacts(trial, "digits_model.pt", "digits_state.pt")
    got = trial.download_artifacts(project.path / "got", "*_state.pt")
    import torch

    assert torch.load(got / "digits_state.pt")["fc.weight"].shape == (10, 200)


@needs("keras")
def test_a_keras_script_with_a_tensorboard_callback(home: Path, project: Project) -> None:
    trial, output = run(project, "keras_tensorboard.py")
    assert "Epoch 2/2" in output
    check_artifacts(trial, "best.keras", f"logs/train/{EVENTS}", f"logs/validation/{EVENTS}")
    board = trial.download_tensorboard(project.path / "board")
    assert len(list(board.rglob(EVENTS))) == 2


@needs("lightning")
def test_a_lightning_script_with_its_default_logger(home: Path, project: Project) -> None:
    trial, output = run(project, "lightning_autoencoder.py")
    assert "train_loss" in output
    logs = "lightning_logs/version_0"
    saved = f"{logs}/checkpoints/epoch=1-step=*.ckpt"
    check_artifacts(trial, saved, f"{logs}/{EVENTS}", f"{logs}/hparams.yaml")


@needs("hydra")
def test_a_hydra_application(home: Path, project: Project) -> None:
    trial, output = run(project, "hydra_app.py", "optimizer=sgd", "optimizer.lr=0.2", "epochs=5")
    assert "lr: 0.2" in output and "[INFO] - training with sgd" in output
    assert trial.params == {"optimizer": "sgd", "optimizer.lr": 0.2, "epochs": 5}
    folder = "outputs/*/*"
    files = (".hydra/config.yaml", ".hydra/hydra.yaml", ".hydra/overrides.yaml")
    own = ("hydra_app.log", "score.txt")
    check_artifacts(trial, *(f"{folder}/{name}" for name in (*files, *own)))


@needs("hydra")
def test_a_hydra_configuration_is_recorded_flat(home: Path, project: Project) -> None:
    project.write(
        "app.py",
        """
        import hydra
        from omegaconf import DictConfig

        import windlass as wl


        @wl.run
        def train(cfg: DictConfig) -> float:
            return cfg.optimizer.lr * cfg.epochs


        @hydra.main(version_base=None, config_path="conf", config_name="config")
        def main(cfg: DictConfig) -> None:
            print("value", train(cfg))


        if __name__ == "__main__":
            main()
        """,
    )
    done = project.python("app.py", "optimizer.lr=0.5", "+note=x")
    assert done.stdout == "value 1.5\n", done.stderr
    [trial] = wl.list_trials(where="hparams.cfg.optimizer.lr == 0.5 and hparams.cfg.note == 'x'")
    optimizer = {"name": "adam", "lr": 0.5, "betas": [0.9, 0.999]}
    assert trial.params == {"cfg": {"optimizer": optimizer, "epochs": 3, "note": "x"}}
