"""Compares the metrics of two trials."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.comparison.changes import is_same
from windlass.model.records import Summary


class MetricChange(msgspec.Struct, frozen=True, kw_only=True):
    """A metric that differs. `before` or `after` is None if that trial lacks the metric."""

    name: str
    before: Summary | None = None
    after: Summary | None = None

    @property
    def change(self) -> float | None:
        """The difference between the last values, or None if either is missing.

        >>> MetricChange(name="loss", before=Summary(last=0.5), after=Summary(last=0.25)).change
        -0.25
        """
        if self.before is None or self.after is None:
            return None
        if self.before.last is None or self.after.last is None:
            return None
        return self.after.last - self.before.last


def changed_metrics(
    before: Mapping[str, Summary], after: Mapping[str, Summary]
) -> tuple[MetricChange, ...]:
    """Return the metrics that differ between two trials, sorted by name."""
    return tuple(
        MetricChange(name=name, before=before.get(name), after=after.get(name))
        for name in sorted({*before, *after})
        if not _is_same(before.get(name), after.get(name))
    )


def _is_same(before: Summary | None, after: Summary | None) -> bool:
    return is_same(msgspec.to_builtins(before), msgspec.to_builtins(after))
