"""Options and arguments that several commands share, with their completion."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    IntType = click.ParamType[int]
    FloatType = click.ParamType[float]
    TextType = click.ParamType[str]
else:  # only newer versions of click know what a type converts to
    IntType = FloatType = TextType = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])


class TrialIdType(IntType):
    """A trial's number."""

    name = "ID"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number, if it is one."""
        text = str(value)
        if not (text.isascii() and text.isdecimal() and 0 < int(text) < 2**63):
            self.fail(f"{text!r} is no trial id: it is a number. See: windlass ls", param, ctx)
        return int(text)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 -- click's signature
        param: click.Parameter,  # noqa: ARG002 -- click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """The newest trials whose id begins so, if a server runs; none is started for this."""
        from click.shell_completion import CompletionItem

        from windlass.cli.sighting import recent_trials

        return [
            CompletionItem(str(trial.id), help=f"{trial.name} {trial.state.value.lower()}")
            for trial in recent_trials()
            if str(trial.id).startswith(incomplete)
        ]


class TimeType(FloatType):
    """A time that may be none, in seconds."""

    name = "TIME"

    def __init__(self, at_most: float | None = None) -> None:
        self._at_most = at_most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The time in seconds."""
        from windlass.model.quantities import format_duration, parse_duration

        if str(value).strip() in ("0", "0s", "0.0"):
            return 0.0
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if self._at_most is not None and seconds > self._at_most:
            most = format_duration(self._at_most)
            self.fail(f"{value!r} is too long; {most} is the most.", param, ctx)
        return seconds


class StateType(TextType):
    """The state of a trial, in any case."""

    name = "STATE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The state as it is written."""
        names = _state_names()
        asked = str(value).upper()
        if asked not in names:
            import difflib

            near = difflib.get_close_matches(asked, names, n=1)
            guess = f"did you mean {near[0].lower()}?" if near else f"it is {_listed(names)}."
            self.fail(f"there is no state {str(value)!r}; {guess}", param, ctx)
        return asked

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 -- click's signature
        param: click.Parameter,  # noqa: ARG002 -- click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """The states that begin so."""
        from click.shell_completion import CompletionItem

        names = [name.lower() for name in _state_names()]
        return [CompletionItem(name) for name in names if name.startswith(incomplete.lower())]


class TrialOrExperimentType(TextType):
    """A trial's number, or an experiment's name."""

    name = "ID"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """What was named, as it is."""
        text = str(value)
        if not text:
            self.fail("name a trial by its id, or an experiment. See: windlass ls", param, ctx)
        return str(TRIAL_ID.convert(text, param, ctx)) if text.isdecimal() else text

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The newest trials, and experiments once a letter is typed."""
        if incomplete and not incomplete.isdecimal():
            return complete_experiments(ctx, param, incomplete)
        return TRIAL_ID.shell_complete(ctx, param, incomplete)


def complete_experiments(
    ctx: click.Context,  # noqa: ARG001 -- click's signature
    param: click.Parameter,  # noqa: ARG001 -- click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """The experiments of the newest trials whose name begins so."""
    from click.shell_completion import CompletionItem

    from windlass.cli.sighting import recent_trials

    names = dict.fromkeys(trial.experiment for trial in recent_trials())
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_accelerators(
    ctx: click.Context,  # noqa: ARG001 -- click's signature
    param: click.Parameter,  # noqa: ARG001 -- click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """The accelerators whose name begins so."""
    from click.shell_completion import CompletionItem

    from windlass.model.accelerators import KINDS

    return [
        CompletionItem(kind.name, help=kind.title)
        for kind in KINDS
        if kind.name.startswith(incomplete.lower())
    ]


def complete_files(
    ctx: click.Context,  # noqa: ARG001 -- click's signature
    param: click.Parameter,  # noqa: ARG001 -- click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Let the shell complete files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_roles(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001 -- click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """The roles of the trial that was named before, each to be given a number."""
    return [each for each in _roles(ctx, "=") if str(each.value).startswith(incomplete)]


def complete_role_names(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001 -- click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """The roles of the trial that was named before."""
    return [each for each in _roles(ctx) if str(each.value).startswith(incomplete)]


def complete_trials_and_metrics(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The newest trials, and the metrics of those that are named before."""
    from click.shell_completion import CompletionItem

    from windlass.cli.sighting import recent_trials

    named = set(ctx.params.get(param.name or "") or ())
    metrics = dict.fromkeys(
        name for trial in recent_trials() if str(trial.id) in named for name in trial.metrics
    )
    found = [CompletionItem(name) for name in metrics if name.startswith(incomplete)]
    return found or TRIAL_ID.shell_complete(ctx, param, incomplete)


def complete_checkpoints(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001 -- click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """The newest checkpoints, of the trial that was named before if one was."""
    from click.shell_completion import CompletionItem

    from windlass.cli.sighting import recent_checkpoints

    # While an option lacks its value, what stands before it is not taken for an argument yet.
    named = str(ctx.params.get("trial_id") or next(iter(ctx.args), ""))
    takes_trial = any(each.name == "trial_id" for each in ctx.command.params)
    trial_id = int(named) if takes_trial and named.isdecimal() else None
    return [
        CompletionItem(
            str(each.id),
            help=f"trial {each.trial_id}" + ("" if each.step is None else f", step {each.step}"),
        )
        for each in recent_checkpoints(trial_id)
        if str(each.id).startswith(incomplete)
    ]


def complete_frameworks(
    ctx: click.Context,  # noqa: ARG001 -- click's signature
    param: click.Parameter,  # noqa: ARG001 -- click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """The frameworks whose name begins so."""
    from click.shell_completion import CompletionItem

    from windlass.frameworks import known_frameworks

    return [CompletionItem(name) for name in known_frameworks() if name.startswith(incomplete)]


def complete_choices(*choices: str) -> Callable[..., list[CompletionItem]]:
    """Complete one of a few words, in whatever case it was begun."""

    def complete(
        ctx: click.Context,  # noqa: ARG001 -- click's signature
        param: click.Parameter,  # noqa: ARG001 -- click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        begun = incomplete.lower()
        return [CompletionItem(each) for each in choices if each.lower().startswith(begun)]

    return complete


class WholeNumber(click.IntRange):
    """A number within bounds; what is none is told as such."""

    name = "whole number"


TRIAL_ID = TrialIdType()
TRIAL_OR_EXPERIMENT = TrialOrExperimentType()
STATE = StateType()


def name_or_id(text: str) -> str | int:
    """What an experiment is called by: its name, or its number.

    >>> name_or_id("cifar10"), name_or_id("7")
    ('cifar10', 7)
    """
    return int(text) if text.isascii() and text.isdecimal() else text


def to_option(said: str) -> Callable[[F], F]:
    """`--to DIR`, which every command that fetches files has."""
    return click.option("--to", "folder", metavar="DIR", shell_complete=complete_files, help=said)


def folder_argument(function: F) -> F:
    """The folder without `--to`, as some commands took it first; it is no longer told of."""
    argument = click.argument("place", required=False, metavar="", shell_complete=complete_files)
    return argument(function)


def chosen_folder(folder: str | None, place: str | None, default: str) -> str:
    """Where to write what is fetched, however that was said."""
    if folder is not None and place is not None:
        raise click.UsageError(f"Say one folder: --to {folder}, or {place}.")
    return folder or place or default


def json_option(function: F) -> F:
    """`--json`, which every command that reads has."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")(
        function
    )


def _roles(ctx: click.Context, after: str = "") -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from windlass.cli.sighting import recent_trials

    # While an option lacks its value, what stands before it is not taken for an argument yet.
    named = ctx.params.get("trial_id") or next(iter(ctx.args), None)
    return [
        CompletionItem(role.name + after, help=f"{role.replicas} replicas")
        for trial in recent_trials()
        if str(trial.id) == str(named)
        for role in trial.spec.roles
    ]


def _state_names() -> list[str]:
    from windlass.model.records import TrialState

    return [state.value for state in TrialState]


def _listed(names: list[str]) -> str:
    *some, last = [name.lower() for name in names]
    return f"{', '.join(some)} or {last}"
