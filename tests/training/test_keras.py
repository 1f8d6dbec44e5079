"""Real Keras: the callback reports, saves checkpoints, resumes after a restart, and stops."""

from __future__ import annotations

from pathlib import Path

import pytest
from callbacks import LITTLE, output_of, run_until_asked_to_stop, steps
from required_frameworks import needs

import windlass as wl
from harness import PATIENCE, Project

pytestmark = needs("keras")

MODEL = """
    import os

    import keras
    import numpy as np

    import windlass as wl

    x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    y = x.sum(axis=1)
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"])
"""


@pytest.mark.parametrize("backend", ["torch"])
def test_training_is_recorded_resumes_after_a_restart_and_stops_on_request(
    home: Path, project: Project, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.chdir(project.path)
    project.write(
        "train.py",
        MODEL
        + """
    class Watch(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            print("epoch", epoch, "iterations", int(model.optimizer.iterations))
            if epoch == 3 and wl.current_trial().attempt == 1:
                os.abort()

    callbacks = [wl.callbacks.keras(), Watch()]
    model.fit(x, y, validation_split=0.25, batch_size=16, epochs=100_000, verbose=0,
              callbacks=callbacks)
    model.fit(x, y, epochs=1, verbose=0)
    print("done")
    """,
    )
    trial = run_until_asked_to_stop("train.py", 6, env={"KERAS_BACKEND": backend})
    # Steps are completed epochs. The second attempt starts after the checkpoint, where the first
    # one was killed, with the restored optimizer.
    assert steps(trial, "loss", attempt=1) == [1, 2, 3]
    second = steps(trial, "loss", attempt=2)
    assert second == list(range(4, 4 + len(second)))
    assert steps(trial, "validation/mae", attempt=2) == second
    assert "epoch 3 iterations 9\n" in output_of(trial)  # three batches of 48 in each
    assert {"loss", "mae", "validation/loss", "validation/mae"} <= set(trial.summary_metrics)
    saved = [checkpoint.step for checkpoint in trial.list_checkpoints()]
    assert sorted(saved)[:3] == [1, 2, 3]
    assert max(saved) == second[-1]
    assert output_of(trial).endswith("done")


def test_a_saved_model_can_be_loaded_and_batches_can_be_steps(
    home: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.write(
        "train.py",
        MODEL
        + """
    history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, callbacks=[
        wl.callbacks.keras(batches=2), wl.callbacks.keras_profiler(start=2, batches=4)])
    saved = keras.saving.load_model(os.path.join(wl.latest_checkpoint(), "model.keras"))
    assert np.allclose(saved.predict(x, verbose=0), model.predict(x, verbose=0))
    """,
    )
    job = wl.Job(wl.PythonScript("train.py"), executor=LITTLE, env={"KERAS_BACKEND": "torch"})
    trial = job.submit().wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", output_of(trial)
    assert steps(trial, "loss", attempt=1) == [2, 4, 6, 8]
    # The profiler: durations of batches, operations, and a trace.
    metrics = set(trial.summary_metrics)
    assert {"profiler/batch_ms", "profiler/batch_ms.max", "profiler/total cpu_ms"} <= metrics
    assert [name for name in metrics if name.startswith("profiler/aten::")]
    [trace] = trial.list_artifacts("profiles/*")
    assert trace.size > 0


def test_the_tensorflow_profiler_writes_files_for_tensorboard(
    home: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorflow", reason="tensorflow is missing: `make training` installs it")
    monkeypatch.chdir(project.path)
    project.write(
        "train.py",
        MODEL
        + """
    model.fit(x, y, batch_size=16, epochs=1, verbose=0, callbacks=[
        wl.callbacks.keras(), wl.callbacks.keras_profiler(start=1, batches=2)])
    """,
    )
    job = wl.Job(wl.PythonScript("train.py"), executor=LITTLE, env={"KERAS_BACKEND": "tensorflow"})
    trial = job.submit().wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", output_of(trial)
    assert "profiler/batch_ms" in trial.summary_metrics
    assert [artifact.name for artifact in trial.list_artifacts("tensorboard/plugins/profile/*")]
    assert [checkpoint.step for checkpoint in trial.list_checkpoints()] == [1]
