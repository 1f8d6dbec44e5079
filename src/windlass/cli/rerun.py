"""`windlass rerun`: a trial once more, as its record has it, or with some things changed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from windlass.cli.parameters import (
    TRIAL_ID,
    complete_accelerators,
    complete_choices,
    complete_experiments,
)
from windlass.cli.sections import SectionedCommand, options_of

if TYPE_CHECKING:
    from windlass.authoring.repeating import Changes
    from windlass.client.trials import Trial
    from windlass.model.records import TrialRecord

F = TypeVar("F", bound=Callable[..., Any])

_EXAMPLES = """Examples:

\b
  windlass rerun 7
  windlass rerun 7 --arg lr=0.1 --arg model.depth=4
  windlass rerun 7 --arg learner.lr=0.1
  windlass rerun 7 --environment recorded --detach
  windlass rerun 7 -- --lr 0.1 data
"""
_DASHES = "windlass.words"  # whether words come behind --, as they are to

_changes = options_of("What is other than it was")
_resources = options_of("Resources, of each replica (as they were)")
_recording = options_of("Submitting and recording")


class RerunCommand(SectionedCommand):
    """A command that notices where its words come from."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note whether there is a --, which click takes away."""
        ctx.meta[_DASHES] = "--" in args
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise _meant_as_argument(error, given) from None


def _meant_as_argument(error: click.NoSuchOption, given: list[str]) -> click.NoSuchOption:
    """The same, but for what looks like an argument of the trial rather than a slip."""
    import difflib

    option = error.option_name
    if not option.startswith("--") or difflib.get_close_matches(
        option, error.possibilities or (), cutoff=0.8
    ):
        return error
    name = option.removeprefix("--").replace("-", "_")
    value = "VALUE"
    for at, word in enumerate(given):
        if word == option and not (given[at + 1 :] or ["-"])[0].startswith("-"):
            value = given[at + 1]
        elif word.startswith(f"{option}="):
            value = word.partition("=")[2]
    said = f"{error.message.rstrip('.')}. An argument of the trial is changed with --arg: "
    return click.NoSuchOption(
        option, f"{said}{shlex.join(['--arg', f'{name}={value}'])}", ctx=error.ctx
    )


def repeating(function: F) -> F:
    """Give a command all that can be other than it was."""
    for decorate in reversed(_OPTIONS):
        function = decorate(function)
    return function


_OPTIONS = (
    _changes(
        "--arg", "args", multiple=True, metavar="NAME=VALUE",
        help="An argument; of several roles: ROLE.NAME=VALUE. null leaves a flag out.",
    ),
    _changes(
        "--env", multiple=True, metavar="K=V",
        help="A variable for its environment; of several roles: ROLE.K=V.",
    ),
    _changes(
        "--environment", metavar="WHICH", shell_complete=complete_choices("recorded"),
        help="recorded: with the packages it was made with, rebuilt.",
    ),
    _resources(
        "--accelerator", metavar="NAME", shell_complete=complete_accelerators,
        help="What it computes on: a100, a100x2, gpu, cpu.",
    ),
    _resources("--cpus", type=float, metavar="N", help="CPUs set aside for it."),
    _resources("--memory", metavar="SIZE", help="Memory set aside for it: 16GB."),
    _recording("--name", metavar="TEXT", help="What the trial is called (the same)."),
    _recording(
        "-e", "--experiment", metavar="TEXT", shell_complete=complete_experiments,
        help="The experiment it belongs to (the same).",
    ),
    _recording("--label", "labels", multiple=True, metavar="TEXT", help="Its labels (the same)."),
    _recording("-d", "--detach", is_flag=True, help="Do not wait for it."),
    _recording("--json", "as_json", is_flag=True, help="With --detach: print the trial as JSON."),
    click.argument("trial_id", type=TRIAL_ID, metavar="ID"),
    click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]"),
)  # fmt: skip


@click.command(
    cls=RerunCommand,
    short_help="Run a trial once more, as it was or with some things changed.",
    epilog=_EXAMPLES,
)
@repeating
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Run the very code and arguments of a trial again, or with some things changed.

    All of it comes from the record: what is in this folder does not matter. Words behind --
    take the place of all its arguments. As with windlass run, its output is shown as it comes,
    and this command ends with its exit code.
    """
    return repeat(ctx, given)


def repeat(
    ctx: click.Context,
    given: dict[str, Any],
    besides: Callable[[Trial[Any]], dict[str, Any]] = lambda _trial: {},
) -> int:
    """Repeat a trial and show it; `besides` says what else is to be other than it was."""
    trial_id, words = given.pop("trial_id"), given.pop("words")
    detach, as_json = given.pop("detach"), given.pop("as_json")
    if as_json and not detach:
        raise click.UsageError("--json goes with --detach: otherwise the output is its own.", ctx)
    if words and not ctx.meta[_DASHES]:
        raise click.UsageError(
            f"What is {words[0]!r}? An argument is changed with --arg NAME=VALUE; a whole list of "
            f"them comes behind --: windlass {ctx.info_name} {trial_id} -- ...",
            ctx,
        )
    if given["args"] and ctx.meta[_DASHES]:
        raise click.UsageError("--arg changes some arguments, -- all of them: use one.", ctx)

    from windlass.cli.wording import as_options, in_options
    from windlass.client.session import default_client
    from windlass.client.view import View

    client = default_client()
    with in_options(), View() as view:
        view.status(f"trial {trial_id}: looking it up")
        found = client.get_trial(trial_id)
        record = found.record
        whole = list(words) if ctx.meta[_DASHES] else None
        changes = replace(_changes_of(record, whole, given), **besides(found))

        from windlass.authoring.repeating import prepare_rerun
        from windlass.cli.run import conclude, tell
        from windlass.client.watching import run_and_watch

        view.status(f"{record.name}: looking at its environment")
        draft, notes = prepare_rerun(client, record, changes)
        for note in notes:
            view.say(f"Warning: {as_options(note)}")
        if detach:
            submitted = client.submit(draft)
        else:
            trial, end = run_and_watch(client, draft, view)
    if detach:
        tell(submitted, as_json=as_json)
        return 0
    return conclude(trial, end, as_options)


def _changes_of(record: TrialRecord, whole: list[str] | None, given: Mapping[str, Any]) -> Changes:
    from windlass.authoring.executors import Local
    from windlass.authoring.repeating import Changes

    roles = [role.name for role in record.spec.roles]
    args: Any = whole if whole is not None else _read("arg", given["args"], roles, read_argument)
    asked = {name: given[name] for name in ("cpus", "memory", "accelerator")}
    executor: Any = Local(**asked) if any(value is not None for value in asked.values()) else None
    if executor is not None and len(roles) > 1:
        executor = dict.fromkeys(roles, executor)
    return Changes(
        args=args,
        env=_read("env", given["env"], roles, str),
        executor=executor,
        name=given["name"],
        experiment=given["experiment"],
        labels=given["labels"] or None,
        environment=given["environment"],
    )


def _read(option: str, texts: Sequence[str], roles: Sequence[str], value_of: Any) -> Any:
    """What is given as NAME=VALUE, by role if there are several."""
    found: dict[str, Any] = {}
    where = f"'--{option}'"
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE.", param_hint=where)
        among = found
        if len(roles) > 1:
            role, dot, name = name.partition(".")
            if not dot or role not in roles:
                listed = ", ".join(roles)
                raise click.BadParameter(
                    f"{text!r} does not say of which role it is ({listed}). Write "
                    f"--{option} {roles[0]}.{text.rpartition('.')[2] if dot else text}",
                    param_hint=where,
                )
            among = found.setdefault(role, {})
        if name in among:
            raise click.BadParameter(
                f"{name} is given twice. A list is written as JSON: {name}='[1, 2]'",
                param_hint=where,
            )
        among[name] = value_of(value)
    return found or None


def read_named(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """What is given as NAME=VALUE, each value as `read_argument` reads it."""
    found: dict[str, Any] = _read(option, texts, (), read_argument) or {}
    return found


def read_argument(text: str) -> Any:
    """A value: JSON if it is a list, a mapping or null; else a number, truth value or text.

    >>> [read_argument(text) for text in ("0.1", "true", "[64, 32]", "null", "[adam", "x y")]
    [0.1, True, [64, 32], None, '[adam', 'x y']
    """
    from windlass.authoring.arguments import read_value

    if text == "null" or text[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except ValueError:
            pass  # a text like any other
    return read_value(text)
