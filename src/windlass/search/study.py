"""Wraps a search's Optuna study. Only this file uses Optuna.

Optuna keeps its state in memory. A resumed search therefore passes all recorded trials to Optuna in
their original order, which restores the same state. This module makes no decisions.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.model.errors import Unsupported
from windlass.search.settings import Settings
from windlass.search.spaces import Choice, Randint, Space

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution


class Study:
    """One search's Optuna study. Its trials are numbered 0, 1, 2 and so on.

    ```python
    study = Study(settings)
    params = study.propose()
    study.begin(params)  # number 0
    study.report(0, step=1, value=0.5)  # True if Optuna would stop the trial
    study.complete(0, 0.4)
    ```
    """

    def __init__(self, settings: Settings) -> None:
        self._optuna = load_optuna()
        self._settings = settings
        self._distributions = {
            name: _distribution(self._optuna, space) for name, space in settings.space.items()
        }
        with _quiet(self._optuna):
            self._study = self._optuna.create_study(
                direction="minimize" if settings.is_min else "maximize",
                sampler=_sampler(self._optuna, settings),
                pruner=_pruner(self._optuna, settings),
            )
        self._trials: list[optuna.Trial] = []  # ordered by number
        self._params: list[dict[str, Any]] = []
        self._next_steps: list[int] = []  # the step of each trial's next evaluation
        self._proposed: list[tuple[optuna.Trial, dict[str, Any]]] = []  # for the next trials
        self._again: list[dict[str, Any]] = []  # interrupted trials' parameters, to be tried again
        self._repeats = 0  # the number of trials that repeated an interrupted one

    def __len__(self) -> int:
        """Return the number of trials started so far."""
        return len(self._trials)

    def propose(self) -> dict[str, Any]:
        """Return the next trial's parameters.

        Until `begin` starts that trial, repeated calls return the same parameters.
        """
        return self.propose_several(1)[0]

    def propose_several(self, count: int) -> list[dict[str, Any]]:
        """Return the next trials' parameters, which stay the same until these trials start."""
        while len(self._proposed) < count:
            self._proposed.append(self._ask(self._due(len(self._proposed))))
        return [params for _, params in self._proposed[:count]]

    def begin(self, params: Mapping[str, Any]) -> int:
        """Start the next trial and return its number.

        Its parameters may differ from the proposed ones.
        """
        self.propose()
        trial, proposed = self._proposed.pop(0)
        if _text(params) in map(_text, self._again):
            self._again = [other for other in self._again if _text(other) != _text(params)]
            self._repeats += 1
        if _text(params) != _text(proposed):
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            trial, proposed = self._ask(dict(params))
        self._trials.append(trial)
        self._params.append(proposed)
        self._next_steps.append(self._settings.min_steps)
        return len(self._trials) - 1

    def report(self, number: int, *, step: int, value: float) -> bool:
        """Report a trial's intermediate value. Return True if Optuna would stop the trial now.

        Successive halving evaluates a trial only at certain steps. Only the values at those steps
        are passed to Optuna, because adding a value takes longer the more values the trial already
        has.
        """
        if step < self._next_steps[number]:
            return False
        while step >= self._next_steps[number]:
            self._next_steps[number] *= self._settings.reduction
        trial = self._trials[number]
        trial.report(value, step)
        return trial.should_prune()

    def complete(self, number: int, value: float) -> None:
        """Record that a trial ran to its end, with its final value."""
        self._study.tell(self._trials[number], value)

    def prune(self, number: int) -> None:
        """Record that a trial was stopped early because of bad values."""
        self._study.tell(self._trials[number], state=self._optuna.trial.TrialState.PRUNED)

    def fail(self, number: int, *, again: bool = False) -> None:
        """Record a trial without a final value. With `again`, its parameters are tried again."""
        self._study.tell(self._trials[number], state=self._optuna.trial.TrialState.FAIL)
        if again:
            self._again.append(self._params[number])

    def importances(self) -> dict[str, float]:
        """Return each parameter's importance, highest first.

        The result is empty unless the trials have at least two different values.
        """
        done = self._study.get_trials(
            deepcopy=False, states=(self._optuna.trial.TrialState.COMPLETE,)
        )
        if len({trial.value for trial in done}) < 2:
            return {}
        with _quiet(self._optuna):
            # All other evaluators need additional packages.
            evaluator = self._optuna.importance.PedAnovaImportanceEvaluator()
            importances = self._optuna.importance.get_param_importances(
                self._study, evaluator=evaluator
            )
        return dict(sorted(importances.items(), key=lambda item: -item[1]))

    def optuna_trials(self) -> list[optuna.trial.FrozenTrial]:
        """Return Optuna's representation of the study's trials, ordered by number."""
        optuna_trials = self._study.get_trials(deepcopy=False)
        return [optuna_trials[trial.number] for trial in self._trials]

    def _due(self, ahead: int) -> dict[str, Any] | None:
        """Return parameters that a new trial must try instead of Optuna's choice, or None.

        These are the parameters of interrupted trials and, in a grid search, of the next point.

        `ahead` is the number of proposed trials that will start earlier.
        """
        again = list({_text(params): params for params in self._again}.values())
        if ahead < len(again):
            return again[ahead]
        if self._settings.method == "grid":
            return self._settings.grid(len(self._trials) + ahead - len(again) - self._repeats)
        return None

    def _ask(self, params: dict[str, Any] | None) -> tuple[optuna.Trial, dict[str, Any]]:
        if params is not None:
            inner = {
                name: _inner(self._settings.space[name], value) for name, value in params.items()
            }
            self._study.enqueue_trial(inner)
        trial = self._study.ask(self._distributions)
        chosen = trial.params
        return trial, {
            name: _outer(space, chosen[name]) for name, space in self._settings.space.items()
        }


def load_optuna() -> Any:
    """Import Optuna, or raise an error that explains how to install it."""
    try:
        import optuna
    except ImportError as error:
        if error.name != "optuna":
            raise
        from windlass.installation import extra_hint

        raise Unsupported(
            "A search needs Optuna, which is not installed here.",
            hint=extra_hint("search", "'optuna>=4'"),
        ) from None
    return optuna


def _sampler(optuna: Any, settings: Settings) -> Any:
    if settings.method == "tpe":
        # With constant_liar, running trials count as bad, so that parallel trials try different
        # values.
        return optuna.samplers.TPESampler(seed=settings.seed, constant_liar=True)
    return optuna.samplers.RandomSampler(seed=settings.seed)


def _pruner(optuna: Any, settings: Settings) -> Any:
    if not settings.prunes:
        return optuna.pruners.NopPruner()
    return optuna.pruners.SuccessiveHalvingPruner(
        min_resource=settings.min_steps, reduction_factor=settings.reduction
    )


def _distribution(optuna: Any, space: Space) -> BaseDistribution:
    kinds = optuna.distributions
    made: BaseDistribution
    if isinstance(space, Choice):
        # Use an option's index, because Optuna would treat the options True and 1 as equal.
        made = kinds.CategoricalDistribution(tuple(range(len(space.options))))
    elif isinstance(space, Randint):
        last = space.low + (space.high - space.low) // space.step * space.step
        made = kinds.IntDistribution(space.low, last, log=space.log, step=space.step)
    else:
        values = space.values
        high = values[-1] if values else space.high
        made = kinds.FloatDistribution(space.low, high, log=space.log, step=space.step)
    return made


def _inner(space: Space, value: Any) -> Any:
    """Convert a parameter's value to Optuna's form, in which an option of `choice` is its index."""
    if not isinstance(space, Choice):
        return value
    return [_text(option) for option in space.options].index(_text(value))


def _outer(space: Space, value: Any) -> Any:
    return space.options[value] if isinstance(space, Choice) else value


def _text(value: Any) -> bytes:
    """Encode a value as JSON, so that equal values have equal encodings and vice versa."""
    return msgspec.json.encode(value, order="deterministic")


@contextlib.contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Hide Optuna's log messages and warnings."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(before)
