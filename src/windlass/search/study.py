"""What Optuna knows of a search, and what it says: the only file that talks to it.

Optuna keeps all in memory. It is told of each trial as it went, in the order in which it went, so
that one who takes a search up again is where the one before was. Nothing is decided here.
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
    """One search, as Optuna sees it; its trials have the numbers 0, 1, 2 ...

    ```python
    study = Study(settings)
    params = study.propose()
    study.begin(params)  # number 0
    study.report(0, step=1, value=0.5)  # whether it is worth going on with
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
        self._trials: list[optuna.Trial] = []  # by number
        self._params: list[dict[str, Any]] = []
        self._next_steps: list[int] = []  # at which each is looked at again
        self._proposed: tuple[optuna.Trial, dict[str, Any]] | None = None
        self._again: list[dict[str, Any]] = []  # what was cut short, to be tried again
        self._repeats = 0  # how many trials tried something again

    def __len__(self) -> int:
        """How many trials have begun."""
        return len(self._trials)

    def propose(self) -> dict[str, Any]:
        """What the next number is to try; asked again before it has begun, the same."""
        if self._proposed is None:
            self._proposed = self._ask(self._due())
        return self._proposed[1]

    def begin(self, params: Mapping[str, Any]) -> int:
        """The next number tries this. It need not be what was proposed: others may share it."""
        proposed = self.propose()
        assert self._proposed is not None  # noqa: S101 -- it was proposed just now
        trial = self._proposed[0]
        if _text(params) in map(_text, self._again):
            self._again = [other for other in self._again if _text(other) != _text(params)]
            self._repeats += 1
        if _text(params) != _text(proposed):
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            trial, proposed = self._ask(dict(params))
        self._proposed = None
        self._trials.append(trial)
        self._params.append(proposed)
        self._next_steps.append(self._settings.min_steps)
        return len(self._trials) - 1

    def report(self, number: int, *, step: int, value: float) -> bool:
        """A value on the way; whether Optuna would end the trial here.

        Successive halving looks at a trial when it has come to the next of its steps, and at no
        value between: those are not told, for each costs Optuna as much as all before it.
        """
        if step < self._next_steps[number]:
            return False
        while step >= self._next_steps[number]:
            self._next_steps[number] *= self._settings.reduction
        trial = self._trials[number]
        trial.report(value, step)
        return trial.should_prune()

    def complete(self, number: int, value: float) -> None:
        """It ran to its end and came to this."""
        self._study.tell(self._trials[number], value)

    def prune(self, number: int) -> None:
        """It was ended early, for what it had reported."""
        self._study.tell(self._trials[number], state=self._optuna.trial.TrialState.PRUNED)

    def fail(self, number: int, *, again: bool = False) -> None:
        """It came to nothing; with `again`, through no fault of its own."""
        self._study.tell(self._trials[number], state=self._optuna.trial.TrialState.FAIL)
        if again:
            self._again.append(self._params[number])

    def importances(self) -> dict[str, float]:
        """How much each parameter mattered, the most important first; empty if it is too early."""
        done = self._study.get_trials(
            deepcopy=False, states=(self._optuna.trial.TrialState.COMPLETE,)
        )
        if len({trial.value for trial in done}) < 2:
            return {}
        with _quiet(self._optuna):
            # The one that needs no other package.
            evaluator = self._optuna.importance.PedAnovaImportanceEvaluator()
            importances = self._optuna.importance.get_param_importances(
                self._study, evaluator=evaluator
            )
        return dict(sorted(importances.items(), key=lambda item: -item[1]))

    def optuna_trials(self) -> list[optuna.trial.FrozenTrial]:
        """The trials as Optuna knows them, by number."""
        optuna_trials = self._study.get_trials(deepcopy=False)
        return [optuna_trials[trial.number] for trial in self._trials]

    def _due(self) -> dict[str, Any] | None:
        """What is to be tried whatever Optuna would say."""
        if self._again:
            return self._again[0]
        if self._settings.method == "grid":
            return self._settings.grid(len(self._trials) - self._repeats)
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
    """Optuna, or the error that says how to have it."""
    try:
        import optuna
    except ImportError as error:
        if error.name != "optuna":
            raise
        raise Unsupported(
            "A search needs Optuna, which is not installed here.",
            hint="Install it: pip install 'optuna>=4', which is the extra windlass[search]",
        ) from None
    return optuna


def _sampler(optuna: Any, settings: Settings) -> Any:
    if settings.method == "tpe":
        # Trials that run are taken for bad ones: several at a time do not try the same.
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
        # By place: an option may be anything, and to Optuna True and 1 are the same.
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
    """A value as Optuna knows it."""
    if not isinstance(space, Choice):
        return value
    return [_text(option) for option in space.options].index(_text(value))


def _outer(space: Space, value: Any) -> Any:
    return space.options[value] if isinstance(space, Choice) else value


def _text(value: Any) -> bytes:
    """What makes two values the same: what is recorded of them."""
    return msgspec.json.encode(value, order="deterministic")


@contextlib.contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Without what Optuna says of itself: nobody here asked it for anything."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(before)
