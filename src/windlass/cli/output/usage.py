"""Formats a trial's resource usage in a few lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.model.records import TrialRecord


def usage_lines(record: TrialRecord) -> Iterator[tuple[str, str]]:
    """Return labels and values for the mean and peak usage of CPU, GPU and memory."""
    from windlass.model.text.quantities import format_size

    seen = {
        name.removeprefix("system/"): summary
        for name, summary in record.metrics.items()
        if name.startswith("system/")
    }
    for name, summary in seen.items():
        if summary.max is None or summary.mean is None:
            continue
        label = name.rpartition("_")[0].replace("_", " ")
        if name == "cpu_percent":
            yield "CPU", f"{summary.mean:.0f} %, at most {summary.max:.0f} %"
        elif name.startswith("gpu") and name.endswith("_percent"):
            yield label, f"{summary.mean:.0f} %, at most {summary.max:.0f} %"
        elif name == "memory_bytes" or name.endswith("_memory_bytes"):
            mean, most = format_size(round(summary.mean)), format_size(round(summary.max))
            yield label, f"{mean}, at most {most}"
