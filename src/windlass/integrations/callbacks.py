"""Callbacks that record training with Keras, PyTorch Lightning or Transformers.

```py
model.fit(x, y, epochs=10, callbacks=[wl.callbacks.keras()])
lightning.Trainer(max_epochs=10, callbacks=[wl.callbacks.lightning()])
transformers.Trainer(model, args, train_dataset=data, callbacks=[wl.callbacks.transformers()])
```

Each callback reports progress, and reports metrics in the groups `training` and `validation`. It
also saves checkpoints, and ends training cleanly when the trial is stopped. Outside of a trial, the
callbacks do nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.integrations.keras import KerasCallback, KerasProfiler
    from windlass.integrations.lightning import LightningCallback
    from windlass.integrations.transformers import TransformersCallback


def keras(
    *, batches: int | None = None, checkpoint_every: int | None = 1, resume: bool = True
) -> KerasCallback:
    """Create a callback for `model.fit` in Keras 3, for any backend.

    ```py
    model.fit(x, y, epochs=10, validation_split=0.1, callbacks=[wl.callbacks.keras()])
    ```

    After a restart, training resumes after the newest checkpoint's epoch, with the optimizer's
    state. A checkpoint contains `model.keras`, which `keras.saving.load_model` can load.

    Args:
        batches: the number of batches between two reports. If set, steps count batches instead of
            epochs.
        checkpoint_every: the number of epochs between checkpoints, or None to save none.
        resume: whether to resume from the newest checkpoint.
    """
    from windlass.integrations.keras import KerasCallback

    return KerasCallback(batches=batches, checkpoint_every=checkpoint_every, resume=resume)


def keras_profiler(*, start: int = 10, batches: int = 10) -> KerasProfiler:
    """Create a callback that profiles some batches in Keras 3's `model.fit`.

    The profiler of the Keras backend (TensorFlow, PyTorch or JAX) writes a trace to the trial's
    artifacts. The metric group `profiler` contains the duration of the batches and, with PyTorch,
    the durations of operations.

    ```py
    model.fit(x, y, callbacks=[wl.callbacks.keras_profiler(start=20, batches=5)])
    ```

    Args:
        start: the number of batches to skip. The first batches are unusually slow.
        batches: the number of batches to profile.
    """
    from windlass.integrations.keras import KerasProfiler

    return KerasProfiler(start=start, batches=batches)


def lightning(*, checkpoint_every: int | None = 1) -> LightningCallback:
    """Create a callback for PyTorch Lightning's `Trainer`.

    The callback reports the metrics that the module logs with `self.log`, as often as the trainer
    logs. To resume after a restart, pass the newest checkpoint to `fit`, which is a Lightning
    checkpoint file:

    ```py
    trainer = Trainer(max_epochs=10, callbacks=[wl.callbacks.lightning()])
    trainer.fit(model, data, ckpt_path=wl.latest_checkpoint())
    ```

    Args:
        checkpoint_every: the number of epochs between checkpoints, or None to save none.
    """
    from windlass.integrations.lightning import LightningCallback

    return LightningCallback(checkpoint_every=checkpoint_every)


def transformers() -> TransformersCallback:
    """Create a callback for Hugging Face Transformers' `Trainer`.

    The callback reports the metrics that the trainer logs, and stores each checkpoint that the
    trainer saves. The trainer's arguments, such as `logging_steps` and `save_strategy`, determine
    how often this happens. To resume after a restart, write:

    ```py
    trainer = Trainer(model, args, train_dataset=data, callbacks=[wl.callbacks.transformers()])
    trainer.train(resume_from_checkpoint=wl.latest_checkpoint())
    ```
    """
    from windlass.integrations.transformers import TransformersCallback

    return TransformersCallback()
