"""The Keras callbacks behind `wl.callbacks.keras` and `wl.callbacks.keras_profiler`."""

from __future__ import annotations

import json
import os
import tempfile
import time
from typing import Any

import keras

from windlass.integrations.metric_groups import is_first, tell, tell_progress
from windlass.worker.program.context import (
    latest_checkpoint,
    save_checkpoint,
    should_stop,
    world_size,
)
from windlass.worker.program.output_dir import output_dir, tensorboard_dir
from windlass.worker.program.report import report

_MODEL = "model.keras"
_PROGRESS = "place.json"


class KerasCallback(keras.callbacks.Callback):  # type: ignore[misc]  # of unknown type without it
    """The callback that `wl.callbacks.keras` returns."""

    def __init__(self, *, batches: int | None, checkpoint_every: int | None, resume: bool) -> None:
        super().__init__()
        self._batches = batches
        self._checkpoint_every = checkpoint_every
        self._resumes = resume
        self._seen = 0  # the number of batches so far, in all attempts

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 -- Keras's signature
        saved = latest_checkpoint() if self._resumes else None
        if saved is None or not os.path.exists(os.path.join(saved, _MODEL)):
            return
        with open(os.path.join(saved, _PROGRESS)) as file:
            progress = json.load(file)
        optimizer = self.model.optimizer
        if optimizer is not None and not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        self.model.load_weights(os.path.join(saved, _MODEL))
        self._seen = progress["batches"]
        self.model._initial_epoch = progress["epochs"]  # Keras's BackupAndRestore sets it, too

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._seen += 1
        if self._batches and self._seen % self._batches == 0 and is_first():
            tell(self._seen, logs or {})
            per_epoch = self.params.get("steps")
            if per_epoch:
                self._tell_progress(self._epoch + (batch + 1) / per_epoch)
        self._look_for_stop()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 -- Keras's
        self._epoch = epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        done = epoch + 1
        if is_first():
            tell(self._seen if self._batches else done, logs or {})
            self._tell_progress(done)
        is_last = self.model.stop_training or done == self.params.get("epochs")
        if self._checkpoint_every and (done % self._checkpoint_every == 0 or is_last):
            self._save(done)
        self._look_for_stop()

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002 -- Keras's
        self.model._initial_epoch = None  # otherwise the next `fit` would start at this epoch

    def _save(self, epochs: int) -> None:
        if not is_first():
            return
        with tempfile.TemporaryDirectory(prefix="windlass-keras-") as folder:
            self.model.save(os.path.join(folder, _MODEL))
            with open(os.path.join(folder, _PROGRESS), "w") as file:
                json.dump({"epochs": epochs, "batches": self._seen}, file)
            save_checkpoint(folder, step=self._seen if self._batches else epochs)

    def _look_for_stop(self) -> None:
        # Several replicas would notice the request after different batches, then wait for each
        # other forever.
        if world_size() == 1 and should_stop():
            self.model.stop_training = True

    def _tell_progress(self, epochs: float) -> None:
        if self.params.get("epochs"):
            tell_progress(epochs / self.params["epochs"])


class KerasProfiler(keras.callbacks.Callback):  # type: ignore[misc]  # of unknown type without it
    """The callback that `wl.callbacks.keras_profiler` returns."""

    def __init__(self, *, start: int, batches: int) -> None:
        super().__init__()
        self._start = start
        self._batches = batches
        self._seen = 0
        self._took: list[float] = []
        self._tracer: Any = None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 -- Keras's
        if self._seen == self._start:
            self._tracer = _tracer()
            self._tracer.__enter__()
        self._began = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 -- Keras's
        self._seen += 1
        if self._tracer is None:
            return
        self._took.append((time.perf_counter() - self._began) * 1000)
        if len(self._took) == self._batches:
            self._finish()

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002 -- Keras's
        self._finish()

    def _finish(self) -> None:
        if self._tracer is None:
            return
        tracer, self._tracer = self._tracer, None
        tracer.__exit__(None, None, None)
        if self._took:
            mean = sum(self._took) / len(self._took)
            worst = max(self._took)
            report(self._seen, "profiler", **{"batch_ms": mean, "batch_ms.max": worst})


def _tracer() -> Any:
    """Return the current Keras backend's profiler as a context manager."""
    backend = keras.backend.backend()
    if backend == "torch":
        from windlass.integrations.profiling import profile

        return profile()
    if backend == "jax":
        import jax

        return jax.profiler.trace(str(output_dir() / "profiles"))
    import tensorflow as tf

    # TensorBoard reads profiles from this folder.
    return tf.profiler.experimental.Profile(str(tensorboard_dir()))
