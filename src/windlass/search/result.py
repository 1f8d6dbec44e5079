"""A search's result, with the best trial and a table of all trials."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from windlass.comparison.tables import Table
from windlass.model.run_time import seconds_run
from windlass.model.text.quantities import format_duration
from windlass.search.policy import SearchPolicy, SearchState, SearchTrial

if TYPE_CHECKING:
    from windlass.client.connection.transport import Transport
    from windlass.client.resources.trial.trial import Trial

_TOP = 10
_ENOUGH = 10  # the number of completed trials needed for importances
_FIXED = ("trial", "state", "step", "seconds")


class SearchResult:
    """The result of `Experiment.search`.

    `print(found)` shows the best trial, a table of the best trials, and the importance of each
    parameter.

    ```python
    exp = wl.create_experiment("tuning")
    found = exp.search(train, space={"lr": wl.loguniform(1e-5, 1e-1)}, metric="loss", trials=3)
    print(found.best_params, found.best_value)
    print(found.best.id, found.best.result())
    ```
    """

    def __init__(self, policy: SearchPolicy, transport: Transport) -> None:
        self._policy = policy
        self._transport = transport

    @property
    def name(self) -> str:
        """The name of the search."""
        return self._policy.name

    @property
    def best(self) -> Trial[Any] | None:
        """The best trial that ran to its end, or None if none did."""
        from windlass.client.resources.trial.trial import Trial

        best = self._policy.best
        return None if best is None else Trial(self._transport, best.record)

    @property
    def best_params(self) -> dict[str, Any]:
        """The best trial's parameters, or `{}` if there is no best trial."""
        best = self._policy.best
        return {} if best is None else dict(best.params)

    @property
    def best_value(self) -> float | None:
        """The best trial's value, or None if there is no best trial."""
        best = self._policy.best
        return None if best is None else best.value

    @property
    def table(self) -> Table:
        """A table with one row per trial.

        The best trials come first, then those that were stopped early, then all others.

        ```python
        for row in found.table:
            print(row["trial"], row["state"], row["lr"])
        ```
        """
        return build_search_table(self._policy, ordered(self._policy))

    @property
    def importances(self) -> dict[str, float]:
        """Each parameter's importance, computed with Optuna's PED-ANOVA. The sum is 1.

        The result is empty until ten trials have run to their end, because fewer trials are not
        conclusive.

        ```python
        for name, share in found.importances.items():
            print(name, f"{share:.0%}")
        ```
        """
        return importances(self._policy)

    @property
    def counts(self) -> dict[str, int]:
        """The number of trials in each state."""
        return counts(self._policy)

    def __len__(self) -> int:
        return len(self._policy.tried)

    def __str__(self) -> str:
        return "\n".join(summary(self._policy))

    def __repr__(self) -> str:
        best = self._policy.best
        summary = "nothing found" if best is None else f"best {metric_text(self._policy, best)}"
        return f"<SearchResult {self.name}: {len(self)} trials, {summary}>"

    def _repr_html_(self) -> str:
        from windlass.display.html.lines import lines_page

        return lines_page([[(line, "")] for line in summary(self._policy)])


def summary(policy: SearchPolicy) -> list[str]:
    """Return the lines to print when a search ends."""
    many = f"{len(policy.tried)} {'trial' if len(policy.tried) == 1 else 'trials'}"
    how = ", ".join(f"{number} {word}" for word, number in counts(policy).items())
    lines = [f"Search {policy.name!r}: {many}" + (f": {how}." if how else ".")]
    best = policy.best
    if best is None:
        return [*lines, "No trial ran to its end with a value."]
    lines.append(f"Best: trial {best.record.id}, {metric_text(policy, best)}")
    lines += [f"  {name} = {value!r}" for name, value in best.params.items()]
    if len(policy.tried) > 1:
        top = build_search_table(policy, ordered(policy)[:_TOP])
        lines += ["", *str(top).splitlines()]
    if len(policy.settings.space) == 1 or len(policy.tried) < _ENOUGH:
        return lines
    if len(policy.ranked()) < _ENOUGH:
        return [*lines, "", "Too few trials ran to their end to say which parameter matters."]
    if shares := importances(policy):
        rows = [{"parameter": name, "importance": f"{share:.0%}"} for name, share in shares.items()]
        lines += ["", *str(Table(["parameter", "importance"], rows)).splitlines()]
    return lines


def importances(policy: SearchPolicy) -> dict[str, float]:
    """Return each parameter's importance, or `{}` if too few trials ran to their end."""
    return policy.study.importances() if len(policy.ranked()) >= _ENOUGH else {}


def ordered(policy: SearchPolicy) -> list[SearchTrial]:
    """Return the trials: the best first, then those stopped early, then all others."""
    rest = [tried for tried in policy.tried if tried.state is not SearchState.COMPLETE]
    # Among trials that were stopped early, a later step is better.
    rest.sort(key=lambda tried: (tried.state is not SearchState.PRUNED, -(tried.step or 0)))
    return [*policy.ranked(), *rest]


def build_search_table(policy: SearchPolicy, trials: list[SearchTrial]) -> Table:
    """Build a table with one row per trial, in the order of `trials`."""
    params = {name: _apart(name, _FIXED) for name in policy.settings.space}
    metric = _apart(policy.settings.metric, (*_FIXED, *params.values()))
    rows = [
        {
            "trial": tried.record.id,
            "state": state_text(tried),
            metric: tried.value,
            "step": tried.step,
            "seconds": _passed(tried),
            **{params[name]: value for name, value in tried.params.items()},
        }
        for tried in trials
    ]
    columns = ["trial", "state", metric, "step", "seconds", *params.values()]
    empty = [name for name in ("step",) if all(row[name] is None for row in rows)]
    return Table([name for name in columns if name not in empty], rows)


def counts(policy: SearchPolicy) -> dict[str, int]:
    """Return the number of trials in each state, unfinished ones first."""
    order = [state.value for state in SearchState]
    by_state: dict[str, int] = {}
    for tried in policy.tried:
        by_state[state_text(tried)] = by_state.get(state_text(tried), 0) + 1
    return dict(
        sorted(by_state.items(), key=lambda item: order.index(item[0]) if item[0] in order else -1)
    )


def state_text(tried: SearchTrial) -> str:
    """Return a trial's state as text, such as `queued`, `running` or `pruned`."""
    goes_on = tried.state is SearchState.RUNNING
    return tried.record.state.value.lower() if goes_on else tried.state.value


def metric_text(policy: SearchPolicy, tried: SearchTrial) -> str:
    """Return the metric's name and a trial's value as text."""
    return f"{policy.settings.metric} {_number(tried.value)}"


def eta(policy: SearchPolicy, concurrent: int) -> float | None:
    """Estimate the seconds until the search ends, from the run times of ended trials."""
    took = [seconds for tried in policy.ended if (seconds := seconds_of(tried)) is not None]
    left = policy.to_begin + len(policy.running)
    if not took or not left:
        return None
    return sum(took) / len(took) * left / max(min(concurrent, left), 1)


def eta_text(policy: SearchPolicy, concurrent: int) -> str:
    """Return the estimated remaining time as text."""
    left = eta(policy, concurrent)
    return "" if left is None else f"about {format_duration(max(round(left), 1))} left"


def seconds_of(tried: SearchTrial) -> float | None:
    """Return a finished trial's run time."""
    return seconds_run(tried.record)


def _passed(tried: SearchTrial) -> float | None:
    """Return a trial's run time so far."""
    seconds = seconds_run(tried.record, time.time())
    if seconds is None or tried.record.ended is not None:
        return seconds
    return float(int(seconds))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _apart(name: str, taken: tuple[str, ...]) -> str:
    return f"param.{name}" if name in taken else name
