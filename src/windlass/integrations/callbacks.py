"""Callbacks that record training: one for Keras, one for PyTorch Lightning, one for Transformers.

```py
model.fit(x, y, epochs=10, callbacks=[wl.callbacks.keras()])
lightning.Trainer(max_epochs=10, callbacks=[wl.callbacks.lightning()])
transformers.Trainer(model, args, train_dataset=data, callbacks=[wl.callbacks.transformers()])
```

Each reports metrics, in the groups `training` and `validation`, and progress, keeps checkpoints,
and ends training in good order when the trial is asked to stop. Outside of a trial they do nothing.
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
    """For `model.fit` of Keras 3, with any backend.

    ```py
    model.fit(x, y, epochs=10, validation_split=0.1, callbacks=[wl.callbacks.keras()])
    ```

    After a restart it goes on by itself from the epoch after the newest checkpoint, with the
    optimizer's state. A checkpoint holds `model.keras`, for `keras.saving.load_model`.

    Args:
        batches: report after every so many batches, too; steps are batches then, else epochs.
        checkpoint_every: keep a checkpoint after every so many epochs; None for never.
        resume: whether to go on from the newest checkpoint.
    """
    from windlass.integrations.keras import KerasCallback

    return KerasCallback(batches=batches, checkpoint_every=checkpoint_every, resume=resume)


def keras_profiler(*, start: int = 10, batches: int = 10) -> KerasProfiler:
    """For `model.fit` of Keras 3: profiles some batches, and keeps the trace.

    The trace is that of the backend's own profiler (TensorFlow, PyTorch or JAX), in the trial's
    artifacts; how long batches took, and with PyTorch which operations, is reported in the group
    `profiler`.

    ```py
    model.fit(x, y, callbacks=[wl.callbacks.keras_profiler(start=20, batches=5)])
    ```

    Args:
        start: how many batches pass before: the first ones are slow for reasons of their own.
        batches: how many are profiled.
    """
    from windlass.integrations.keras import KerasProfiler

    return KerasProfiler(start=start, batches=batches)


def lightning(*, checkpoint_every: int | None = 1) -> LightningCallback:
    """For the `Trainer` of PyTorch Lightning.

    Reports what the module logs (`self.log`), as often as the trainer does. To go on after a
    restart, give `fit` the newest checkpoint, which is a file of Lightning's:

    ```py
    trainer = Trainer(max_epochs=10, callbacks=[wl.callbacks.lightning()])
    trainer.fit(model, data, ckpt_path=wl.latest_checkpoint())
    ```

    Args:
        checkpoint_every: keep a checkpoint after every so many epochs; None for never.
    """
    from windlass.integrations.lightning import LightningCallback

    return LightningCallback(checkpoint_every=checkpoint_every)


def transformers() -> TransformersCallback:
    """For the `Trainer` of Hugging Face Transformers.

    Reports what the trainer logs, and keeps every checkpoint that it saves, as its arguments say
    (`logging_steps`, `save_strategy`). To go on after a restart:

    ```py
    trainer = Trainer(model, args, train_dataset=data, callbacks=[wl.callbacks.transformers()])
    trainer.train(resume_from_checkpoint=wl.latest_checkpoint())
    ```
    """
    from windlass.integrations.transformers import TransformersCallback

    return TransformersCallback()
