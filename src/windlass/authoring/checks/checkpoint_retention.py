"""Parses and checks the options `keep_last` and `keep_best`, which delete old checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from windlass.authoring.checks.options import Problem, parse_problems
from windlass.model.errors import InvalidArgument, shown

if TYPE_CHECKING:
    from windlass.model.job import Keep

_MOST = 1_000_000
_LONGEST_METRIC = 400


class Best(NamedTuple):
    """The parsed `keep_best` option. `is_max` is True if higher values of the metric are better."""

    number: int
    is_max: bool
    metric: str


def parse_best(text: Any) -> Best:
    """Parse `keep_best`: an optional number, `min` or `max`, and a metric name.

    >>> parse_best("2 min val_loss")
    Best(number=2, is_max=False, metric='val_loss')
    >>> parse_best("max accuracy")
    Best(number=1, is_max=True, metric='accuracy')
    """
    words = text.split() if isinstance(text, str) else []
    number = words.pop(0) if words and words[0].isdecimal() and words[0].isascii() else "1"
    mode = words.pop(0) if words else ""
    metric = " ".join(words)
    if mode not in ("min", "max") or not metric or len(metric) > _LONGEST_METRIC:
        raise InvalidArgument(
            f"{shown(text)} does not name a metric and min or max; write 'min val_loss' "
            "or '3 max accuracy'"
        )
    if not {"min", "max"}.isdisjoint(words):
        raise InvalidArgument(f"{shown(text)} names more than one metric; name one: 'min val_loss'")
    if len(number) > 7 or not 1 <= int(number) <= _MOST:
        raise InvalidArgument(
            f"{number[:20]} is not a valid number of checkpoints; write 1 or more"
        )
    return Best(int(number), mode == "max", metric)


def check_retention(last: Any, best: Any) -> list[Problem]:
    """Return the problems with the options `keep_last` and `keep_best`."""
    return [
        *parse_problems("keep_last", last, _parse_last),
        *parse_problems("keep_best", best, parse_best),
    ]


def retention_rule(last: int | None, best: str | None) -> Keep | None:
    """Convert `keep_last` and `keep_best` to a retention rule.

    Return None, which keeps all checkpoints, if neither option is set.
    """
    if last is None and best is None:
        return None
    from windlass.model.job import Keep

    if best is None:
        return Keep(last=last or 1)
    chosen = parse_best(best)
    return Keep(
        last=last or 1,
        best=chosen.number,
        metric=chosen.metric,
        is_max=chosen.is_max,
        has_last=last is not None,
    )


def _parse_last(last: Any) -> int:
    if isinstance(last, bool) or not isinstance(last, int) or not 1 <= last <= _MOST:
        raise InvalidArgument(
            f"{shown(last)} is not a valid number of checkpoints; write 1 or more"
        )
    return last
