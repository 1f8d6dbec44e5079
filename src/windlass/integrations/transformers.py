"""The Transformers callback behind `wl.callbacks.transformers`."""

from __future__ import annotations

import os
from typing import Any

from transformers import TrainerCallback

from windlass.integrations.exit_cleanup import part_at_exit
from windlass.integrations.metric_groups import tell, tell_progress
from windlass.worker.program.context import save_checkpoint, should_stop

_STEPS_BETWEEN = 10  # with several processes, check for a stop once in this many steps


class TransformersCallback(TrainerCallback):  # type: ignore[misc]  # of unknown type without it
    """The callback that `wl.callbacks.transformers` returns."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        del state, control, kwargs
        if args.world_size > 1:
            part_at_exit()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        del args, control, kwargs
        if not state.is_world_process_zero:
            return
        tell(state.global_step, logs or {})
        if state.max_steps > 0:
            tell_progress(state.global_step / state.max_steps)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        del control, kwargs
        if state.is_world_process_zero:
            name = f"checkpoint-{state.global_step}"
            save_checkpoint(os.path.join(args.output_dir, name), step=state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        del kwargs
        if args.world_size > 1:
            if state.global_step % _STEPS_BETWEEN or not _any_rank(should_stop(), args.device):
                return
        elif not should_stop():
            return
        control.should_training_stop = True
        control.should_save = True


def _any_rank(here: bool, device: Any) -> bool:
    """Return True on all ranks if `here` is True on any rank."""
    import torch

    flag = torch.tensor(int(here), device=device)
    torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
    return bool(flag.item())
