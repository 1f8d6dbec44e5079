"""Implements `wl.profile`, which runs PyTorch's profiler and stores traces and averages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from windlass.integrations.metric_groups import LONGEST_NAME
from windlass.worker.program.context import rank
from windlass.worker.program.output_dir import output_dir
from windlass.worker.program.report import report

_GROUP = "profiler"
_FOLDER = "profiles"


def profile(
    *,
    wait: int = 0,
    warmup: int = 0,
    active: int | None = None,
    repeat: int = 1,
    top: int = 10,
    step: int = 0,
    activities: Sequence[Any] | None = None,
    **options: Any,
) -> Profile:
    """Profile a `with` block, or some of its steps, with PyTorch's profiler.

    ```py
    with wl.profile(wait=10, warmup=2, active=5) as profiler:
        for batch in batches:
            train(batch)
            profiler.step()
    ```

    Each trace is stored in the trial's artifacts as `profiles/*.pt.trace.json.gz`, which Perfetto
    and chrome://tracing can open. The metric group `profiler` contains the times and calls of the
    most expensive operations, such as `aten::mm cpu_ms`, `aten::mm calls` and, on a GPU, `aten::mm
    device_ms`. It also contains `total cpu_ms` and `step_ms`. Without `active`, the whole block is
    one trace.

    Args:
        wait: the number of steps before the trace, which have almost no overhead.
        warmup: the number of steps to profile and discard.
        active: the number of steps per trace.
        repeat: the number of traces, or 0 for no limit. `wait` and `warmup` precede each trace.
        top: the number of operations to report.
        step: the training step at which the block starts.
        activities: the activities to profile, as members of `torch.profiler.ProfilerActivity`.
        options: more arguments for `torch.profiler.profile`, such as `profile_memory=True`.
    """
    try:
        import torch  # noqa: F401 -- to check that it is installed
    except ImportError:
        raise ModuleNotFoundError(
            "wl.profile() is that of PyTorch, which is not installed: pip install torch",
            name="torch",
        ) from None
    schedule = None if active is None else (wait, warmup, active, repeat)
    return Profile(schedule, top, step, activities, options)


class Profile:
    """A running PyTorch profiler. Call `step()` after each training step."""

    def __init__(
        self,
        schedule: tuple[int, int, int, int] | None,
        top: int,
        step: int,
        activities: Sequence[Any] | None,
        options: dict[str, Any],
    ) -> None:
        from torch import profiler

        self._top = top
        self._step = step
        self._traces = 0
        self._began = self._since = 0.0
        self._steps = 0  # the number of steps since `_since`
        if schedule is not None:
            wait, warmup, active, repeat = schedule
            plan = profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=repeat)
            options = {"schedule": plan, **options}
        self._profiler = profiler.profile(
            activities=activities, on_trace_ready=self._keep, **options
        )

    def __enter__(self) -> Profile:
        self._since = time.perf_counter()
        self._profiler.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._profiler.__exit__(kind, error, traceback)

    def step(self) -> None:
        """Mark the end of a training step."""
        self._step += 1
        self._steps += 1
        self._profiler.step()

    def key_averages(self) -> Any:
        """Return PyTorch's averages per operation, which have a printable `.table()`."""
        return self._profiler.key_averages()

    def _keep(self, finished: Any) -> None:
        """Store a trace and report its operations' averages."""
        self._traces += 1
        folder = output_dir() / _FOLDER
        folder.mkdir(exist_ok=True)
        path = folder / f"rank{max(rank(), 0)}-step{self._step}-{self._traces}.pt.trace.json.gz"
        finished.export_chrome_trace(str(path))
        report(self._step, _GROUP, **self._averages(finished))

    def _averages(self, finished: Any) -> dict[str, float]:
        averages = finished.key_averages()
        values: dict[str, float] = {
            "total cpu_ms": sum(average.self_cpu_time_total for average in averages) / 1000
        }
        on_device = sum(_device_time(average) for average in averages)
        if on_device:
            values["total device_ms"] = on_device / 1000
        if self._steps:
            now = time.perf_counter()
            values["step_ms"] = (now - self._since) / self._steps * 1000
            self._since, self._steps = now, 0
        for average in sorted(averages, key=_cost, reverse=True)[: self._top]:
            name = "".join(c if c.isprintable() else " " for c in average.key)[: LONGEST_NAME - 20]
            values[f"{name} cpu_ms"] = average.self_cpu_time_total / 1000
            values[f"{name} calls"] = average.count
            if _device_time(average):
                values[f"{name} device_ms"] = _device_time(average) / 1000
        return values


def _cost(average: Any) -> float:
    return float(average.self_cpu_time_total + _device_time(average))


def _device_time(average: Any) -> float:
    """Return an operation's GPU time in microseconds.

    Older PyTorch versions use a different name for this value.
    """
    spent = getattr(average, "self_device_time_total", None)
    return float(getattr(average, "self_cuda_time_total", 0) if spent is None else spent)
