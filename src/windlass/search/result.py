"""What came of a search: the best trial, all of them in a table, what mattered."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from windlass.comparing.tables import Table
from windlass.model.lasting import seconds_run
from windlass.model.quantities import format_duration
from windlass.search.course import Course, Standing, Tried

if TYPE_CHECKING:
    from windlass.client.transport import Transport
    from windlass.client.trials import Trial

_TOP = 10
_ENOUGH = 10  # trials that ran to their end, before it can be said what matters
_FIXED = ("trial", "state", "step", "seconds")


class SearchResult:
    """What `Experiment.search` found. Printed, it is the best, the top trials, and what mattered.

    ```python
    exp = wl.create_experiment("tuning")
    found = exp.search(train, space={"lr": wl.loguniform(1e-5, 1e-1)}, metric="loss", trials=3)
    print(found.best_params, found.best_value)
    print(found.best.id, found.best.result())
    ```
    """

    def __init__(self, course: Course, transport: Transport) -> None:
        self._course = course
        self._transport = transport

    @property
    def name(self) -> str:
        """What the search is called."""
        return self._course.name

    @property
    def best(self) -> Trial[Any] | None:
        """The best of the trials that ran to their end; None if there is none."""
        from windlass.client.trials import Trial

        best = self._course.best
        return None if best is None else Trial(self._transport, best.record)

    @property
    def best_params(self) -> dict[str, Any]:
        """What the best trial tried."""
        best = self._course.best
        return {} if best is None else dict(best.params)

    @property
    def best_value(self) -> float | None:
        """What the best trial came to."""
        best = self._course.best
        return None if best is None else best.value

    @property
    def table(self) -> Table:
        """A row a trial: the best first, then those that were ended early, then the others.

        ```python
        for row in found.table:
            print(row["trial"], row["state"], row["lr"])
        ```
        """
        return table_of(self._course, ordered(self._course))

    @property
    def importances(self) -> dict[str, float]:
        """How much each parameter mattered, as Optuna's PED-ANOVA says; they sum to 1.

        Empty before ten trials have run to their end: fewer cannot tell.

        ```python
        for name, share in found.importances.items():
            print(name, f"{share:.0%}")
        ```
        """
        return importances(self._course)

    @property
    def counts(self) -> dict[str, int]:
        """How many trials ended how."""
        return counts(self._course)

    def __len__(self) -> int:
        return len(self._course.tried)

    def __str__(self) -> str:
        return "\n".join(summary(self._course))

    def __repr__(self) -> str:
        best = self._course.best
        found = "nothing found" if best is None else f"best {told(self._course, best)}"
        return f"<SearchResult {self.name}: {len(self)} trials, {found}>"


def summary(course: Course) -> list[str]:
    """What is said at the end."""
    many = f"{len(course.tried)} {'trial' if len(course.tried) == 1 else 'trials'}"
    how = ", ".join(f"{number} {word}" for word, number in counts(course).items())
    lines = [f"Search {course.name!r}: {many}" + (f": {how}." if how else ".")]
    best = course.best
    if best is None:
        return [*lines, "No trial ran to its end with a value."]
    lines.append(f"Best: trial {best.record.id}, {told(course, best)}")
    lines += [f"  {name} = {value!r}" for name, value in best.params.items()]
    if len(course.tried) > 1:
        top = table_of(course, ordered(course)[:_TOP])
        lines += ["", *str(top).splitlines()]
    if len(course.settings.space) == 1 or len(course.tried) < _ENOUGH:
        return lines
    if len(course.ranked()) < _ENOUGH:
        return [*lines, "", "Too few trials ran to their end to say which parameter matters."]
    if shares := importances(course):
        rows = [{"parameter": name, "importance": f"{share:.0%}"} for name, share in shares.items()]
        lines += ["", *str(Table(["parameter", "importance"], rows)).splitlines()]
    return lines


def importances(course: Course) -> dict[str, float]:
    """How much each parameter mattered; empty where too few ran to their end to say so."""
    return course.study.importances() if len(course.ranked()) >= _ENOUGH else {}


def ordered(course: Course) -> list[Tried]:
    """The best first, then those that were ended early, then the others."""
    rest = [each for each in course.tried if each.standing is not Standing.COMPLETE]
    # Of those that were ended early, the one that went furthest was the best.
    rest.sort(key=lambda each: (each.standing is not Standing.PRUNED, -(each.step or 0)))
    return [*course.ranked(), *rest]


def table_of(course: Course, tried: list[Tried]) -> Table:
    """Some of the trials, in that order."""
    params = {name: _apart(name, _FIXED) for name in course.settings.space}
    metric = _apart(course.settings.metric, (*_FIXED, *params.values()))
    rows = [
        {
            "trial": each.record.id,
            "state": word_of(each),
            metric: each.value,
            "step": each.step,
            "seconds": _passed(each),
            **{params[name]: value for name, value in each.params.items()},
        }
        for each in tried
    ]
    columns = ["trial", "state", metric, "step", "seconds", *params.values()]
    empty = [name for name in ("step",) if all(row[name] is None for row in rows)]
    return Table([name for name in columns if name not in empty], rows)


def counts(course: Course) -> dict[str, int]:
    """How many are how: those that go on first, then in the order of the states."""
    order = [state.value for state in Standing]
    found: dict[str, int] = {}
    for each in course.tried:
        found[word_of(each)] = found.get(word_of(each), 0) + 1
    return dict(
        sorted(found.items(), key=lambda each: order.index(each[0]) if each[0] in order else -1)
    )


def word_of(tried: Tried) -> str:
    """How a trial stands, in a word: one that goes on may as well wait for room."""
    goes_on = tried.standing is Standing.RUNNING
    return tried.record.state.value.lower() if goes_on else tried.standing.value


def told(course: Course, tried: Tried) -> str:
    """The value of a trial with its name."""
    return f"{course.settings.metric} {_number(tried.value)}"


def eta(course: Course, concurrent: int) -> float | None:
    """In how many seconds it may be over, by how long trials took so far."""
    took = [seconds for each in course.ended if (seconds := seconds_of(each)) is not None]
    left = course.to_begin + len(course.running)
    if not took or not left:
        return None
    return sum(took) / len(took) * left / max(min(concurrent, left), 1)


def eta_text(course: Course, concurrent: int) -> str:
    """The same in words."""
    left = eta(course, concurrent)
    return "" if left is None else f"about {format_duration(max(round(left), 1))} left"


def seconds_of(tried: Tried) -> float | None:
    """How long a trial took, if it is over."""
    return seconds_run(tried.record)


def _passed(tried: Tried) -> float | None:
    """How long a trial took, or takes already."""
    seconds = seconds_run(tried.record, time.time())
    if seconds is None or tried.record.ended is not None:
        return seconds
    return float(int(seconds))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _apart(name: str, taken: tuple[str, ...]) -> str:
    return f"param.{name}" if name in taken else name
