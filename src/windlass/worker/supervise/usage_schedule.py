"""Schedules measurements of resource use: one soon after the start, then at intervals.

The supervisor does not import the sampler until the first sample is due. Most short trials end
before that.
"""

from __future__ import annotations

import time

from windlass.worker.common.nudge import METRICS, Nudger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from windlass.worker.supervise.usage_sampler import Sampler

VARIABLE = "WINDLASS_SYSTEM_METRICS"  # seconds between samples; 0 turns sampling off
EVERY = 10.0  # seconds
FIRST = 2.0  # seconds until the first sample, so that even short runs have one
_WORTH_IT = 1.0  # seconds since the last sample from which a final one is worth taking


class UsageSchedule:
    """Takes and records the usage samples of one attempt."""

    def __init__(
        self,
        attempt_dir: str,
        launch: Mapping[str, Any],
        environ: Mapping[str, str],
        nudger: Nudger,
    ) -> None:
        self._dir = attempt_dir
        self._launch = launch
        self._nudger = nudger
        self._began = self._last = time.monotonic()
        self._cpu_before = 0.0
        self._sampler: Sampler | None = None
        self._every: float | None = EVERY
        self.first_in: float | None = FIRST
        if VARIABLE in environ:
            self._every = parse_interval(environ[VARIABLE])
            self.first_in = None if self._every is None else min(self._every, FIRST)
        if launch.get("environment"):  # created before the program
            from windlass.worker.supervise.usage_sampler import cpu_of_the_dead

            self._cpu_before = cpu_of_the_dead()

    def take(self) -> float | None:
        """Take a usage sample. Return the seconds until the next sample is due, or None to stop."""
        try:
            self._sample()
        except Exception:  # noqa: BLE001 -- a failed sample must not stop the replica
            return None
        self._last = time.monotonic()
        return self._every

    def _sample(self) -> None:
        from windlass.worker.common.metrics_file import append_metrics
        from windlass.worker.supervise.usage_sampler import GROUP, Sampler

        if self._sampler is None:
            devices = self._launch.get("devices") or ()
            self._sampler = Sampler(devices, self._began, self._cpu_before)
        now = time.time()  # the step is a time, so that steps increase across attempts
        append_metrics(self._dir, int(now), GROUP, self._sampler.sample(), now)
        self._nudger.nudge(METRICS)

    def take_last(self) -> None:
        """Take a final sample, unless the attempt ended before the first one was due."""
        if self._sampler is not None and time.monotonic() - self._last >= _WORTH_IT:
            self.take()


def parse_interval(text: str | None) -> float | None:
    """Return the seconds between two samples, or None if sampling is off.

    >>> [parse_interval(text) for text in (None, "2.5", "0", "off", "soon")]
    [10.0, 2.5, None, None, 10.0]
    """
    if text is None or text == "":
        return EVERY
    if text.lower() in ("off", "no", "false"):
        return None
    try:
        seconds = float(text)
    except ValueError:
        return EVERY
    return max(seconds, 0.1) if 0 < seconds < float("inf") else None
