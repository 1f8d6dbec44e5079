"""The Lightning callback behind `wl.callbacks.lightning`."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from windlass.integrations.metric_groups import group_of, tell, tell_progress
from windlass.worker.program.context import save_checkpoint, should_stop

# The library has two package names. A Trainer accepts only callbacks from its own package.
if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    from lightning.pytorch import Callback


class LightningCallback(Callback):  # type: ignore[misc]  # of unknown type where it is missing
    """The callback that `wl.callbacks.lightning` returns."""

    def __init__(self, *, checkpoint_every: int | None) -> None:
        super().__init__()
        self._checkpoint_every = checkpoint_every
        self._has_stopped = False

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        del pl_module, outputs, batch
        is_due = trainer.global_step % trainer.log_every_n_steps == 0
        if is_due and trainer.is_global_zero:
            self._tell(trainer, "training")
            if trainer.max_epochs and trainer.max_epochs > 0 and trainer.num_training_batches:
                part = (batch_idx + 1) / trainer.num_training_batches
                tell_progress((trainer.current_epoch + part) / trainer.max_epochs)
        # Several ranks must agree to stop, which takes time, so they check only when they log.
        if trainer.world_size == 1 or is_due:
            self._look_for_stop(trainer)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        del pl_module
        if trainer.is_global_zero and not trainer.sanity_checking:
            self._tell(trainer, "validation")

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        del pl_module
        done = trainer.current_epoch + 1
        if trainer.is_global_zero:
            self._tell(trainer, "training")
            if trainer.max_epochs and trainer.max_epochs > 0:
                tell_progress(done / trainer.max_epochs)
        is_last = trainer.should_stop or done == trainer.max_epochs
        if self._checkpoint_every and (done % self._checkpoint_every == 0 or is_last):
            self._save(trainer)

    def _tell(self, trainer: Any, group: str) -> None:
        logged = trainer.callback_metrics
        tell(trainer.global_step, {n: v for n, v in logged.items() if group_of(n)[0] == group})

    def _look_for_stop(self, trainer: Any) -> None:
        if trainer.strategy.reduce_boolean_decision(should_stop(), all=False):
            trainer.should_stop = True

    def _save(self, trainer: Any) -> None:
        with tempfile.TemporaryDirectory(prefix="windlass-lightning-") as folder:
            path = trainer.strategy.broadcast(os.path.join(folder, "model.ckpt"))
            trainer.save_checkpoint(path)  # on all ranks, as some strategies require
            if trainer.is_global_zero:
                save_checkpoint(path, step=trainer.global_step)
            trainer.strategy.barrier("windlass-checkpoint")
