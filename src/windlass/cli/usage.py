"""What a trial used of its machine, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.model.records import TrialRecord


def used(record: TrialRecord) -> Iterator[tuple[str, str]]:
    """Labels and values, of what was seen of it: its means and its peaks."""
    from windlass.model.quantities import format_size

    seen = {
        name.removeprefix("system/"): each
        for name, each in record.metrics.items()
        if name.startswith("system/")
    }
    for name, each in seen.items():
        if each.max is None or each.mean is None:
            continue
        label = name.rpartition("_")[0].replace("_", " ")
        if name == "cpu_percent":
            yield "CPU", f"{each.mean:.0f} %, at most {each.max:.0f} %"
        elif name.startswith("gpu") and name.endswith("_percent"):
            yield label, f"{each.mean:.0f} %, at most {each.max:.0f} %"
        elif name == "memory_bytes" or name.endswith("_memory_bytes"):
            yield label, f"{format_size(round(each.mean))}, at most {format_size(round(each.max))}"
