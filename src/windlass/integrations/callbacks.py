"""Callbacks that record training: one for Keras, one for PyTorch Lightning, one for Transformers.

```py
model.fit(x, y, epochs=10, callbacks=[wl.callbacks.keras()])
lightning.Trainer(max_epochs=10, callbacks=[wl.callbacks.lightning()])
transformers.Trainer(model, args, train_dataset=data, callbacks=[wl.callbacks.transformers()])
```

Each callback reports metrics in the groups `training` and `validation`, reports progress, saves
checkpoints, and ends training cleanly when the trial is asked to stop. Outside of a trial the
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
    """Create a callback for `model.fit` of Keras 3, with any backend.

    ```py
    model.fit(x, y, epochs=10, validation_split=0.1, callbacks=[wl.callbacks.keras()])
    ```

    After a restart, training resumes after the epoch of the newest checkpoint, with the optimizer's
    state. A checkpoint contains `model.keras`, for `keras.saving.load_model`.

    Args:
        batches: number of batches between reports; steps then count batches instead of epochs.
        checkpoint_every: number of epochs between checkpoints; None for no checkpoints.
        resume: whether to resume from the newest checkpoint.
    """
    from windlass.integrations.keras import KerasCallback

    return KerasCallback(batches=batches, checkpoint_every=checkpoint_every, resume=resume)


def keras_profiler(*, start: int = 10, batches: int = 10) -> KerasProfiler:
    """Create a callback that profiles some batches of Keras 3's `model.fit` and stores the trace.

    The backend's own profiler (TensorFlow, PyTorch or JAX) writes the trace to the trial's
    artifacts. The group `profiler` has the duration of batches and, with PyTorch, of operations.

    ```py
    model.fit(x, y, callbacks=[wl.callbacks.keras_profiler(start=20, batches=5)])
    ```

    Args:
        start: number of batches to skip, because the first ones are unusually slow.
        batches: number of batches to profile.
    """
    from windlass.integrations.keras import KerasProfiler

    return KerasProfiler(start=start, batches=batches)


def lightning(*, checkpoint_every: int | None = 1) -> LightningCallback:
    """Create a callback for the `Trainer` of PyTorch Lightning.

    Reports the metrics that the module logs (`self.log`), as often as the trainer logs. To resume
    after a restart, pass the newest checkpoint, a Lightning checkpoint file, to `fit`:

    ```py
    trainer = Trainer(max_epochs=10, callbacks=[wl.callbacks.lightning()])
    trainer.fit(model, data, ckpt_path=wl.latest_checkpoint())
    ```

    Args:
        checkpoint_every: number of epochs between checkpoints; None for no checkpoints.
    """
    from windlass.integrations.lightning import LightningCallback

    return LightningCallback(checkpoint_every=checkpoint_every)


def transformers() -> TransformersCallback:
    """Create a callback for the `Trainer` of Hugging Face Transformers.

    Reports the metrics that the trainer logs and stores every checkpoint that it saves, as set in
    its arguments (`logging_steps`, `save_strategy`). To resume after a restart:

    ```py
    trainer = Trainer(model, args, train_dataset=data, callbacks=[wl.callbacks.transformers()])
    trainer.train(resume_from_checkpoint=wl.latest_checkpoint())
    ```
    """
    from windlass.integrations.transformers import TransformersCallback

    return TransformersCallback()
