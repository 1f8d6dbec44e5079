"""A search's settings, which are recorded and must stay the same when the search resumes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from windlass.model.errors import Conflict, InvalidArgument, shown
from windlass.model.thread_safe_types import learned
from windlass.search.spaces import Choice, Randint, Space, Uniform

Method = Literal["grid", "random", "tpe", "asha"]
Mode = Literal["min", "max"]

DEFAULT_TRIALS = 50
_MOST_TRIALS = 100_000


class Settings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings that define a search, such as its space, metric and method."""

    space: dict[str, Uniform | Randint | Choice]
    metric: str
    mode: Mode
    method: Method
    seed: int
    trials: int
    min_steps: int = 1
    reduction: int = 4
    job: str = ""  # the name of the job that the search runs
    args: Any = None  # arguments that are the same in every trial

    @property
    def is_min(self) -> bool:
        """True if lower values are better."""
        return self.mode == "min"

    @property
    def prunes(self) -> bool:
        """True if trials may be stopped early."""
        return self.method == "asha"

    def grid(self, number: int) -> dict[str, Any]:
        """Return the parameters of one trial in a grid search.

        The last parameter changes fastest as `number` increases.
        """
        chosen: dict[str, Any] = {}
        for name, space in reversed(self.space.items()):
            values = space.values or []
            number, index = divmod(number, len(values))
            chosen[name] = values[index]
        return {name: chosen[name] for name in self.space}


def check_settings(
    *, space: dict[str, Space], metric: object, mode: object, method: object, trials: object,
    seed: object, min_steps: object, reduction: object,
) -> int | None:  # fmt: skip
    """Check a search's settings and return the number of trials.

    One error lists all invalid settings. The result is None if neither `trials` nor a grid's size
    determines the number.
    """
    problems = []
    if not isinstance(metric, str) or not metric:
        problems.append(
            f"metric is {shown(metric)}; it must be the name of a metric that the trials report.\n"
            'For example: metric="val_loss", with wl.report(step, val_loss=...) in the function'
        )
    if mode not in get_args(Mode):
        problems.append(f'mode is {shown(mode)}; it must be "min" or "max".')
    if method not in get_args(Method):
        methods = ", ".join(f'"{name}"' for name in get_args(Method))
        problems.append(f"method is {shown(method)}; it must be one of {methods}.")
    size = grid_size(space, problems) if method == "grid" else None
    number = _count(problems, "trials", trials, 1, _MOST_TRIALS) if trials is not None else size
    if seed is not None:
        _count(problems, "seed", seed, 0, 2**32 - 1)
    _count(problems, "min_steps", min_steps, 1, 2**31)
    _count(problems, "reduction", reduction, 2, 1000)
    if problems:
        raise InvalidArgument.of(problems, where="exp.search")
    return number if size is None or number is None else min(number, size)


def grid_size(space: Mapping[str, Space], problems: list[str]) -> int | None:
    """Return the number of combinations in a grid search.

    Parameters with infinitely many values are reported in `problems`.
    """
    sizes = []
    for name, axis in space.items():
        values = axis.values
        if values is None:
            low, high = f"{axis.low:g}", f"{axis.high:g}"  # type: ignore[union-attr]  # no choice
            step = "" if getattr(axis, "log", False) else f" or wl.uniform({low}, {high}, step=...)"
            problems.append(
                f"{name} is {axis}, which has infinitely many values. A grid tries every value.\n"
                f'Use wl.choice({low}, ..., {high}){step}, or method="random".'
            )
        else:
            sizes.append(len(values))
    size = math.prod(sizes)
    if size > _MOST_TRIALS:
        problems.append(
            f"a grid of {size:,} combinations exceeds the limit of {_MOST_TRIALS:,} trials.\n"
            'Leave values out, or use method="random".'
        )
    return size


def check_same(
    name: str, recorded: Mapping[str, Any], requested: Settings, *, is_seeded: bool
) -> Settings:
    """Return the settings to resume a search with.

    If the requested settings differ from the recorded ones, raise Conflict. The number of trials
    may differ. If the user passed no seed, the recorded seed is used.
    """
    free = ("trials",) if is_seeded else ("trials", "seed")
    before, now = _flat(recorded, free), _flat(msgspec.to_builtins(requested), free)
    differing = [
        f"{key} was {_setting_text(before.get(key))}, now {_setting_text(now.get(key))}"
        for key in dict.fromkeys([*before, *now])
        if _normal(before.get(key)) != _normal(now.get(key))
    ]
    if differing:
        raise Conflict(
            f"This experiment has a search {name!r} with other settings: "
            + "; ".join(differing) + ".",
            hint='Use another name, name="...", or continue with the recorded settings.',
        )  # fmt: skip
    settings = msgspec.convert(dict(recorded), learned(Settings))
    # Use the requested space, because its options may be tuples, which JSON lacks.
    return msgspec.structs.replace(settings, space=requested.space, trials=requested.trials)


def _flat(settings: Mapping[str, Any], free: Sequence[str]) -> dict[str, Any]:
    """Return a search's settings except those in `free`, which are allowed to change.

    The search space is split into one entry per parameter.
    """
    plain = {key: value for key, value in settings.items() if key not in (*free, "space")}
    spaces = {f"space[{name!r}]": value for name, value in settings.get("space", {}).items()}
    return {**spaces, **plain}


def _setting_text(value: Any) -> str:
    """Return a setting as text, in the form that the user wrote."""
    if value is None:
        return "not given"
    if isinstance(value, dict) and value.get("type") in ("uniform", "randint", "choice"):
        return shown(msgspec.convert(value, learned(Uniform | Randint | Choice)))
    return shown(value)


def _normal(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _count(problems: list[str], name: str, value: object, least: int, most: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        problems.append(f"{name} is {shown(value)}; it must be a whole number.")
    elif not least <= value <= most:
        problems.append(f"{name} is {value}; it must be from {least} to {most}.")
    else:
        return value
    return None
