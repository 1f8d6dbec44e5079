"""Reports metrics and progress. Each report is a record in the attempt's `metrics` file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from operator import index

from windlass.worker.common.errors import invalid, shown, wrong_type
from windlass.worker.common.metrics_file import (
    MOST_VALUES,
    Form,
    Sink,
    json_record,
    progress_record,
)
from windlass.worker.common.own_attempt import attempt_dir, replica
from windlass.worker.common.process_tree import MARKER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, SupportsFloat, SupportsIndex

GROUP = "training"
LONGEST_NAME = 200
MOST_NAMES = 1000
LONGEST_RECORD = 256 * 1024

_MOST_FORMS = 256  # combinations of names; reports with any further combinations are JSON
_LAST_STEP = 2**63 - 1
# The dictionary inside `os.environ`. Reading through `os.environ` itself would take longer than all
# other steps of a report except the write.
_environment: Mapping[Any, Any] = getattr(os.environ, "_data", os.environ)
_marker: Any = os.fsencode(MARKER) if _environment is not os.environ else MARKER


def report(
    step_or_metrics: SupportsIndex | Mapping[str, SupportsFloat] | None = None,
    /,
    group: str = GROUP,
    *,
    step: Any = None,  # SupportsIndex | None, which type checkers would reject with **values
    **metrics: SupportsFloat,
) -> None:
    """Record metric values at a step. Every replica may report. Outside of a trial, do nothing.

    ```python
    for step in range(3):
        wl.report(step, loss=1 / (step + 1))
        wl.report(step, group="validation", loss=1.5 / (step + 1))
    wl.report({"loss": 0.1, "grad/norm": 2.5})  # at step 3, the next step
    wl.report({"loss": 0.1}, step=10)
    ```

    A value is any number, including NumPy and PyTorch numbers, NaN and infinities. A step is a
    whole number, at least 0. In every group except "training", the metric's full name starts with
    the group, as in `validation/loss`.

    Without a step, Windlass counts. A metric that already has a value at the current step starts
    the next step, and any other metric belongs to the current step. The current step is the highest
    one that this process has reported, explicitly or by counting. After `wl.latest_checkpoint()`
    has returned a checkpoint, counting continues from the step that was current when the checkpoint
    was saved.
    """
    marker = _environment.get(_marker)
    if marker is None:
        return
    sink = _sinks.get(marker) or _new_sink(marker)
    if sink is None:
        return
    first = step_or_metrics
    form = sink.forms.get((group, *metrics)) if type(group) is str else None
    if form is not None and type(first) is int and step is None and 0 <= first <= _LAST_STEP:
        try:
            record = form.record(time.time(), first, metrics.values())
        except Exception:  # noqa: BLE001 -- `_encode` finds the value that is wrong
            record = _encode(sink, first, group, metrics)
        if first > form.last:
            form.last = first
    else:
        record = _encode(sink, *_arguments(first, group, step, metrics))
    sink.put(record)


def report_progress(progress: SupportsFloat) -> None:
    """Report the program's progress, from 0 to 1. Outside of a trial, do nothing.

    `trial.progress`, `windlass ls` and `windlass show` show it.

    ```python
    for epoch in range(10):
        wl.report_progress((epoch + 1) / 10)
    ```
    """
    marker = _environment.get(_marker)
    sink = (_sinks.get(marker) or _new_sink(marker)) if marker is not None else None
    if sink is None:
        return
    share = _number("progress", progress)
    if not 0 <= share <= 1:
        raise invalid(
            f"progress: {shown(progress)} is not between 0 and 1.",
            "Report the share of the work that is done: wl.report_progress(done / total).",
        )
    sink.put(progress_record(time.time(), share))


class _Sink(Sink):
    """An attempt's `metrics` file, and the record formats of earlier reports."""

    def __init__(self, own: tuple[str, str, str, str], folder: str) -> None:
        super().__init__(own, folder)
        self.forms: dict[tuple[str, ...], _Form] = {}
        self.last_steps: dict[str, int] = {}  # for metrics reported without a form
        self.first_step = 0  # for reports without a step

    def next_step(self, names: frozenset[str]) -> int:
        """Return the step of a report that states no step and has metrics of these names."""
        step = self.first_step
        for form in tuple(self.forms.values()):
            step = max(step, form.last if names.isdisjoint(form.names) else form.last + 1)
        for name, last in tuple(self.last_steps.items()):
            step = max(step, last + 1 if name in names else last)
        return step

    def reported_step(self) -> int | None:
        """Return the highest step in any report to this file, or None if there are no reports."""
        lasts = [form.last for form in tuple(self.forms.values())]
        last = max([-1, *lasts, *tuple(self.last_steps.values())])
        return None if last < 0 else last


class _Form(Form):
    """The record format for a set of metrics, and the highest step reported for them."""

    def __init__(self, group: str, names: Sequence[str]) -> None:
        super().__init__(group, names)
        self.names = _full_names(group, names)
        self.last = -1


def reported_step() -> int | None:
    """Return the highest step that this process has reported, or None."""
    sink = _sinks.get(_environment.get(_marker))
    return None if sink is None else sink.reported_step()


def continue_after(step: int) -> None:
    """Let this process's reports that state no step continue after `step`."""
    marker = _environment.get(_marker)
    sink = (_sinks.get(marker) or _new_sink(marker)) if marker is not None else None
    if sink is not None:
        sink.first_step = max(sink.first_step, step + 1)


_sinks: dict[Any, _Sink] = {}


def _new_sink(marker: object) -> _Sink | None:
    own, folder = replica(), attempt_dir()
    if own is None or folder is None:
        return None
    return _sinks.setdefault(marker, _Sink(own, folder))


def _arguments(
    first: Any, group: str, step: SupportsIndex | None, metrics: dict[str, Any]
) -> tuple[SupportsIndex | None, str, dict[str, Any]]:
    """Return a report's step, group and metrics."""
    if isinstance(first, Mapping):
        if not isinstance(group, str):
            raise wrong_type(
                f"report: {shown(group)} is in the place of the group.",
                'To set the step: wl.report({"loss": 0.5}, step=10)',
            )
        return step, group, {**first, **metrics}
    if step is not None and first is not None:
        raise wrong_type(
            f"report: there are two steps, {shown(first)} and {shown(step)}.",
            "Pass the step first, or as step=...",
        )
    return (first if step is None else step), group, metrics


def _encode(sink: _Sink, step: SupportsIndex | None, group: str, metrics: dict[str, Any]) -> bytes:
    """Encode a report as a record. Raise an error that names any invalid argument."""
    now, number = time.time(), None if step is None else _step(step, group)
    if not metrics:
        detail = "" if _is_default(group) else f" {shown(group)} is in the place of the group."
        raise wrong_type(
            f"report: no metric is named.{detail}",
            f"Pass metrics as keyword arguments: {_written(number, group)}",
        )
    values = {name: _number(name, value) for name, value in metrics.items()}
    names = _quoted_names(group, metrics)
    key = (group, *metrics)
    form = sink.forms.get(key)
    if form is None and len(metrics) <= MOST_VALUES and len(sink.forms) < _MOST_FORMS:
        form = _Form(group, list(metrics))
        if sink.know(form):
            sink.forms[key] = form
        else:
            form = None
    if number is None:
        number = sink.next_step(_full_names(group, metrics) if form is None else form.names)
    if form is not None:
        form.last = max(form.last, number)
        return form.record(now, number, list(values.values()))
    sink.last_steps.update(
        (name, max(number, sink.last_steps.get(name, -1))) for name in _full_names(group, metrics)
    )
    line = json_record(now, number, names[None], {names[name]: values[name] for name in values})
    if len(line) > LONGEST_RECORD:
        raise invalid(
            f"report: {len(metrics)} metrics in one call are {len(line)} bytes; "
            f"{LONGEST_RECORD} are the most.",
            "Report fewer at a time.",
        )
    return line


def _step(step: SupportsIndex, group: str) -> int:
    try:
        number = index(step)
    except TypeError:
        hint = "Count from 0: wl.report(0, loss=0.1)."
        if isinstance(step, str):  # a metric's name in place of the step, as in other libraries
            named = {step: 0.5 if _is_default(group) else group}
            hint = f"The step comes first, then metrics as keyword arguments: {_written(1, named)}"
        raise wrong_type(f"step: {shown(step)} is not a whole number.", hint) from None
    if not 0 <= number < 2**63:
        raise invalid(
            f"step: {shown(number)} is not between 0 and 2**63 - 1.",
            "Count from 0: wl.report(0, loss=0.1).",
        )
    return number


def _is_default(group: object) -> bool:
    return isinstance(group, str) and group == GROUP


def _full_names(group: str, names: Iterable[str]) -> frozenset[str]:
    return frozenset(names if group == GROUP else [f"{group}/{name}" for name in names])


def _written(step: int | None, arguments: object) -> str:
    """Return the `report` call that the user probably meant.

    >>> _written(1, {"loss": 0.25}), _written(None, None)
    ('wl.report(1, loss=0.25)', 'wl.report(loss=0.5)')
    """
    metrics = {"loss": 0.5}
    if isinstance(arguments, dict) and 0 < len(arguments) <= 4:
        plain = all(type(name) is str and name.isidentifier() for name in arguments)
        if plain and all(type(value) in (int, float) for value in arguments.values()):
            metrics = arguments
    words = [] if step is None else [str(step)]
    return f"wl.report({', '.join([*words, *(f'{name}={metrics[name]!r}' for name in metrics)])})"


def _number(name: str, value: Any) -> float:
    """Convert a value to a float. Strings are rejected even if they look like numbers."""
    problem, hint = (
        "is not a number",
        "Report numbers: for a tensor with many elements, their mean or norm.",
    )
    if isinstance(value, (str, bytes, bytearray)):
        raise wrong_type(f"{_called(name)}: {shown(value)} {problem}.", hint)
    try:
        return float(value)
    except OverflowError:
        raise invalid(
            f"{_called(name)}: {shown(value)} is too large for a float.", "Report its logarithm."
        ) from None
    except (
        TypeError,
        ValueError,
        RuntimeError,
    ):  # PyTorch raises RuntimeError for a tensor with many elements
        only = _only_element(value)
        if only is not None:
            return only
        raise wrong_type(f"{_called(name)}: {shown(value)} {problem}.", hint) from None


def _only_element(array: Any) -> float | None:
    """Return the number in a one-element array or tensor, which `float` does not always accept."""
    try:
        count = array.numel() if hasattr(array, "numel") else array.size
        element = array.item() if count == 1 else None
        return None if element is None or isinstance(element, (str, bytes)) else float(element)
    except Exception:  # noqa: BLE001 -- an object that is not a number may raise any error
        return None


# Each group's checked names, encoded as JSON. The key None stands for the group's own name.
_names: dict[str, dict[str | None, str]] = {}


def _quoted_names(group: str, metrics: Iterable[str]) -> dict[str | None, str]:
    quoted_names = _names.get(group) if type(group) is str else None
    if quoted_names is None:
        quoted = _quoted("group", group)
        quoted_names = _names.setdefault(group, {None: quoted})
    for name in metrics:
        if name not in quoted_names:
            quoted = _quoted("metric", name)
            if sum(map(len, _names.values())) - len(_names) >= MOST_NAMES:
                raise invalid(
                    f"{_called(name)}: a trial has at most {MOST_NAMES} metrics.",
                    "Do not put values that change with each step into the name.",
                )
            quoted_names[name] = quoted
    return quoted_names


def _quoted(what: str, name: object) -> str:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise invalid(f"{shown(name)} is not a valid {what} name.", "Use printable characters.")
    if len(name) > LONGEST_NAME:
        raise invalid(
            f"{shown(name)} is not a valid {what} name: it has {len(name)} characters, "
            f"and the limit is {LONGEST_NAME}.",
            "Do not put values that change with each step into the name.",
        )
    return json.dumps(name)


def _called(name: str) -> str:
    return name if name.isprintable() and 0 < len(name) <= 100 else shown(name)
