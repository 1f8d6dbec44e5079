"""Options and arguments that several commands share, with shell completion."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from windlass.cli.options.last_trial import find_last, find_last_if_running, steps_back

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    IntType = click.ParamType[int]
    FloatType = click.ParamType[float]
    TextType = click.ParamType[str]
else:  # older versions of click have no generic parameter types
    IntType = FloatType = TextType = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])


class TrialIdType(IntType):
    """The click type for a trial id.

    `last` means the newest trial, and `last~1` means the trial before it.
    """

    name = "ID"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert the text to a trial id."""
        text = str(value)
        if (steps := steps_back(text)) is not None:
            if ctx is None or not ctx.resilient_parsing:
                return find_last(steps)
            return find_last_if_running(steps) or self.fail("no server runs", param, ctx)
        if not (text.isascii() and text.isdecimal() and 0 < int(text) < 2**63):
            self.fail(
                f"{text!r} is not a trial id. Write a number, or last for the newest trial. "
                "See: windlass ls",
                param,
                ctx,
            )
        return int(text)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 -- click's signature
        param: click.Parameter,  # noqa: ARG002 -- click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """Complete the ids of recent trials if a server runs. Completion starts no server."""
        from click.shell_completion import CompletionItem

        from windlass.cli.options.server_probe import recent_trials

        trials = recent_trials()
        items = [
            CompletionItem(str(trial.id), help=f"{trial.name} {trial.state.value.lower()}")
            for trial in trials
            if str(trial.id).startswith(incomplete)
        ]
        if trials and "last".startswith(incomplete):
            items.append(CompletionItem("last", help=f"trial {trials[0].id}, the newest"))
        return items


class NumberType(FloatType):
    """The click type for a number of CPUs, which may be a fraction."""

    name = "N"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert the text to a number."""
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number; write 1, 4 or 0.5.", param, ctx)


class TimeType(FloatType):
    """The click type for a duration such as 90 or 10m, converted to seconds."""

    name = "TIME"

    def __init__(self, at_most: float | None = None) -> None:
        self._at_most = at_most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert the text to seconds."""
        from windlass.model.text.quantities import format_duration, parse_duration

        if str(value).strip() in ("0", "0s", "0.0"):
            return 0.0
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if self._at_most is not None and seconds > self._at_most:
            most = format_duration(self._at_most)
            self.fail(f"{value!r} is too long; the maximum is {most}.", param, ctx)
        return seconds


class StateType(TextType):
    """The click type for a trial state, in upper or lower case."""

    name = "STATE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Convert the text to a state name."""
        names = _state_names()
        state = str(value).upper()
        if state not in names:
            import difflib

            near = difflib.get_close_matches(state, names, n=1)
            guess = (
                f"did you mean {near[0].lower()}?" if near else f"choose one of: {_listed(names)}."
            )
            self.fail(f"there is no state {str(value)!r}; {guess}", param, ctx)
        return state

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 -- click's signature
        param: click.Parameter,  # noqa: ARG002 -- click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """Complete the names of states."""
        from click.shell_completion import CompletionItem

        names = [name.lower() for name in _state_names()]
        return [CompletionItem(name) for name in names if name.startswith(incomplete.lower())]


class TrialOrExperimentType(TextType):
    """The click type for a trial id or an experiment name."""

    name = "ID"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text unchanged, except that `last` becomes an id."""
        text = str(value)
        if not text:
            self.fail("name a trial by its id, or an experiment. See: windlass ls", param, ctx)
        is_trial = text.isdecimal() or steps_back(text) is not None
        return str(TRIAL_ID.convert(text, param, ctx)) if is_trial else text

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete ids of recent trials, or experiment names if the text starts with a letter."""
        from click.shell_completion import CompletionItem

        if incomplete and not incomplete.isdecimal():
            last = [CompletionItem("last")] if "last".startswith(incomplete) else []
            return complete_experiments(ctx, param, incomplete) + last
        return TRIAL_ID.shell_complete(ctx, param, incomplete)


def complete_experiments(
    ctx: click.Context,  # noqa: ARG001 -- click's signature
    param: click.Parameter,  # noqa: ARG001 -- click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Complete the experiment names of recent trials."""
    from click.shell_completion import CompletionItem

    from windlass.cli.options.server_probe import recent_trials

    names = dict.fromkeys(trial.experiment for trial in recent_trials())
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_accelerators(
    ctx: click.Context,  # noqa: ARG001 -- click's signature
    param: click.Parameter,  # noqa: ARG001 -- click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Complete accelerator names."""
    from click.shell_completion import CompletionItem

    from windlass.model.hardware.accelerators import KINDS

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
    """Let the shell complete file names."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_roles(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001 -- click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Complete `ROLE=` with the roles of the trial named earlier on the command line."""
    return [item for item in _roles(ctx, "=") if str(item.value).startswith(incomplete)]


def complete_role_names(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001 -- click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Complete the role names of the trial named earlier on the command line."""
    return [item for item in _roles(ctx) if str(item.value).startswith(incomplete)]


def complete_trials_and_metrics(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete recent trials, and the metrics of trials named earlier on the command line."""
    from click.shell_completion import CompletionItem

    from windlass.cli.options.server_probe import recent_trials

    named = set(map(_id_of, ctx.params.get(param.name or "") or ()))
    metrics = dict.fromkeys(
        name for trial in recent_trials() if str(trial.id) in named for name in trial.metrics
    )
    items = [CompletionItem(name) for name in metrics if name.startswith(incomplete)]
    return items or TRIAL_ID.shell_complete(ctx, param, incomplete)


def complete_checkpoints(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001 -- click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Complete recent checkpoints.

    If the command line already names a trial, complete only that trial's checkpoints.
    """
    from click.shell_completion import CompletionItem

    from windlass.cli.options.server_probe import recent_checkpoints

    # While an option still lacks its value, click has not parsed the arguments before the option.
    named = _id_of(ctx.params.get("trial_id") or next(iter(ctx.args), ""))
    takes_trial = any(parameter.name == "trial_id" for parameter in ctx.command.params)
    trial_id = int(named) if takes_trial and named.isdecimal() else None
    return [
        CompletionItem(
            str(checkpoint.id),
            help=f"trial {checkpoint.trial_id}"
            + ("" if checkpoint.step is None else f", step {checkpoint.step}"),
        )
        for checkpoint in recent_checkpoints(trial_id)
        if str(checkpoint.id).startswith(incomplete)
    ]


def complete_frameworks(
    ctx: click.Context,  # noqa: ARG001 -- click's signature
    param: click.Parameter,  # noqa: ARG001 -- click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Complete framework names."""
    from click.shell_completion import CompletionItem

    from windlass.frameworks import framework_names

    return [CompletionItem(name) for name in framework_names() if name.startswith(incomplete)]


def complete_choices(*choices: str) -> Callable[..., list[CompletionItem]]:
    """Return a completion function for an option that accepts only these words, in any case."""

    def complete(
        ctx: click.Context,  # noqa: ARG001 -- click's signature
        param: click.Parameter,  # noqa: ARG001 -- click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        begun = incomplete.lower()
        return [CompletionItem(choice) for choice in choices if choice.lower().startswith(begun)]

    return complete


class WholeNumber(click.IntRange):
    """The click type for an integer within bounds, called a whole number in errors."""

    name = "whole number"


NUMBER = NumberType()
TRIAL_ID = TrialIdType()
TRIAL_OR_EXPERIMENT = TrialOrExperimentType()
STATE = StateType()


def name_or_id(text: str) -> str | int:
    """Convert a reference to an experiment to an integer id or a name.

    >>> name_or_id("cifar10"), name_or_id("7")
    ('cifar10', 7)
    """
    return int(text) if text.isascii() and text.isdecimal() else text


def experiment_option(help_text: str) -> Callable[[F], F]:
    """Add `-e`/`--experiment`, the name or id of an experiment."""
    return click.option(
        "-e", "--experiment", metavar="NAME", shell_complete=complete_experiments, help=help_text
    )


def to_option(help_text: str) -> Callable[[F], F]:
    """Add `--to DIR`, which every command that downloads files has."""
    return click.option(
        "--to", "folder", metavar="DIR", shell_complete=complete_files, help=help_text
    )


def folder_argument(function: F) -> F:
    """Add a hidden folder argument, so that older command lines without `--to` still work."""
    argument = click.argument("place", required=False, metavar="", shell_complete=complete_files)
    return argument(function)


def chosen_folder(folder: str | None, place: str | None, default: str) -> str:
    """Return the folder from `--to` or the hidden argument, or else the default folder."""
    if folder is not None and place is not None:
        raise click.UsageError(f"Name the folder once: --to {folder}, or {place}.")
    return folder or place or default


def json_option(function: F) -> F:
    """Add `--json`, which every command that prints records has."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")(
        function
    )


def _roles(ctx: click.Context, after: str = "") -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from windlass.cli.options.server_probe import recent_trials

    # While an option still lacks its value, click has not parsed the arguments before the option.
    named = ctx.params.get("trial_id") or next(iter(ctx.args), None)
    return [
        CompletionItem(role.name + after, help=f"{role.replicas} replicas")
        for trial in recent_trials()
        if str(trial.id) == _id_of(named)
        for role in trial.spec.roles
    ]


def _id_of(word: object) -> str:
    """Return a trial's id as text, also for `last`. Any other word is returned unchanged."""
    steps = steps_back(str(word))
    return str(word) if steps is None else str(find_last_if_running(steps))


def _state_names() -> list[str]:
    from windlass.model.records import TrialState

    return [state.value for state in TrialState]


def _listed(names: list[str]) -> str:
    *some, last = [name.lower() for name in names]
    return f"{', '.join(some)} or {last}"
