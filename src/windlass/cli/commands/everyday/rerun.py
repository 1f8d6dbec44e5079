"""Implements `windlass rerun`, which runs a recorded trial again, with or without changes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from windlass.cli.options.help_sections import SectionedCommand, examples, section_options
from windlass.cli.options.parameters import (
    NUMBER,
    TRIAL_ID,
    complete_accelerators,
    complete_choices,
    complete_experiments,
)

if TYPE_CHECKING:
    from windlass.authoring.rerun.rerun import Changes
    from windlass.client.resources.trial.trial import Trial
    from windlass.model.records import TrialRecord

F = TypeVar("F", bound=Callable[..., Any])

_EXAMPLES = examples(
    "windlass rerun 7",
    "windlass rerun 7 --arg lr=0.1 --arg model.depth=4",
    "windlass rerun 7 --arg learner.lr=0.1",
    "windlass rerun 7 --environment recorded --detach",
    "windlass rerun 7 -- --lr 0.1 data",
)
_DASHES = "windlass.words"  # `ctx.meta` key that stores whether the arguments contain `--`

_changes = section_options("Changes")
_resources = section_options("Resources of each replica (default: as recorded)")
_recording = section_options("Submitting and recording")


class RerunCommand(SectionedCommand):
    """A command that remembers whether its arguments contain `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments and remember whether they contain `--`, which click removes."""
        ctx.meta[_DASHES] = "--" in args
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise _suggest_argument(error, words) from None


def _suggest_argument(error: click.NoSuchOption, words: list[str]) -> click.NoSuchOption:
    """Add a hint about --arg to the error for an unknown option.

    The hint appears if the option looks like one of the trial's own arguments.
    """
    import difflib

    option = error.option_name
    if not option.startswith("--") or difflib.get_close_matches(
        option, error.possibilities or (), cutoff=0.8
    ):
        return error
    name = option.removeprefix("--").replace("-", "_")
    value = "VALUE"
    for at, word in enumerate(words):
        if word == option and not (words[at + 1 :] or ["-"])[0].startswith("-"):
            value = words[at + 1]
        elif word.startswith(f"{option}="):
            value = word.partition("=")[2]
    message = f"{error.message.rstrip('.')}. To change an argument of the trial, use --arg: "
    return click.NoSuchOption(
        option, f"{message}{shlex.join(['--arg', f'{name}={value}'])}", ctx=error.ctx
    )


def rerun_options(function: F) -> F:
    """Add the options of `windlass rerun` to another command."""
    for decorate in reversed(_OPTIONS):
        function = decorate(function)
    return function


_OPTIONS = (
    _changes(
        "--arg", "args", multiple=True, metavar="NAME=VALUE",
        help="Set an argument; null omits it. With roles: ROLE.NAME=VALUE.",
    ),
    _changes(
        "--env", multiple=True, metavar="K=V",
        help="Set an environment variable. With roles: ROLE.K=V.",
    ),
    _changes(
        "--environment", metavar="WHICH", shell_complete=complete_choices("recorded"),
        help="recorded: reinstall the recorded packages.",
    ),
    _resources(
        "--accelerator", metavar="NAME", shell_complete=complete_accelerators,
        help="Accelerator: a100, a100x2, gpu, cpu.",
    ),
    _resources("--cpus", type=NUMBER, metavar="N", help="Reserve CPUs."),
    _resources("--memory", metavar="SIZE", help="Reserve memory: 16GB."),
    _recording("--name", metavar="TEXT", help="Name of the new trial (the same)."),
    _recording(
        "-e", "--experiment", metavar="TEXT", shell_complete=complete_experiments,
        help="Experiment of the new trial (the same).",
    ),
    _recording(
        "--label", "labels", multiple=True, metavar="TEXT",
        help="Add a label. Labels of the old trial are not copied.",
    ),
    _recording("-d", "--detach", is_flag=True, help="Return at once. The trial runs on."),
    _recording("--json", "as_json", is_flag=True, help="Print the trial as JSON (with --detach)."),
    click.argument("trial_id", type=TRIAL_ID, metavar="ID"),
    click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]"),
)  # fmt: skip


@click.command(
    cls=RerunCommand,
    short_help="Run a trial again, unchanged or with changes.",
    epilog=_EXAMPLES,
)
@rerun_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Run a trial's recorded code again with its recorded arguments.

    The files in the current folder do not matter. Words after -- replace all arguments. The command
    shows the trial's output as it runs, and exits with the program's exit code.
    """
    return run_again(ctx, options)


def run_again(
    ctx: click.Context,
    options: dict[str, Any],
    besides: Callable[[Trial[Any]], dict[str, Any]] = lambda _trial: {},
) -> int:
    """Run a trial again and show its output.

    `besides` computes additional changes from the trial.
    """
    trial_id, words = options.pop("trial_id"), options.pop("words")
    detach, as_json = options.pop("detach"), options.pop("as_json")
    if as_json and not detach:
        raise click.UsageError(
            "--json needs --detach. Otherwise the command prints the output of the trial.", ctx
        )
    if words and not ctx.meta[_DASHES]:
        raise click.UsageError(
            f"What is {words[0]!r}? To change an argument, use --arg NAME=VALUE. To "
            f"replace all arguments, write them after --: windlass {ctx.info_name} "
            f"{trial_id} -- ...",
            ctx,
        )
    if options["args"] and ctx.meta[_DASHES]:
        raise click.UsageError(
            "--arg changes some arguments, -- replaces all of them. Use one of the two.", ctx
        )

    from windlass.cli.options.python_to_options import as_options, errors_as_options
    from windlass.client.client import default_client
    from windlass.client.terminal.view import View

    client = default_client()
    with errors_as_options(), View() as view:
        view.stage(f"trial {trial_id}: looking it up")
        original = client.get_trial(trial_id)
        record = original.record
        whole = list(words) if ctx.meta[_DASHES] else None
        changes = replace(_read_changes(record, whole, options), **besides(original))

        from windlass.authoring.rerun.rerun import prepare_rerun
        from windlass.cli.commands.everyday.run import print_submitted, report_end
        from windlass.client.terminal.watch_trial import run_and_watch

        view.stage(f"{record.name}: looking at its environment")
        draft, notes = prepare_rerun(client, record, changes)
        for note in notes:
            view.say(f"Warning: {as_options(note)}")
        if detach:
            submitted = client.submit(draft)
        else:
            trial, end = run_and_watch(client, draft, view)
    if detach:
        print_submitted(submitted, as_json=as_json)
        return 0
    return report_end(trial, end, as_options)


def _read_changes(
    record: TrialRecord, whole: list[str] | None, options: Mapping[str, Any]
) -> Changes:
    from windlass.authoring.public.executors import Local
    from windlass.authoring.rerun.rerun import Changes

    roles = [role.name for role in record.spec.roles]
    args: Any = whole if whole is not None else _read("arg", options["args"], roles, read_argument)
    resources = {name: options[name] for name in ("cpus", "memory", "accelerator")}
    executor: Any = (
        Local(**resources) if any(value is not None for value in resources.values()) else None
    )
    if executor is not None and len(roles) > 1:
        executor = dict.fromkeys(roles, executor)
    return Changes(
        args=args,
        env=_read("env", options["env"], roles, str),
        executor=executor,
        name=options["name"],
        experiment=options["experiment"],
        labels=options["labels"] or None,
        environment=options["environment"],
    )


def _read(option: str, texts: Sequence[str], roles: Sequence[str], value_of: Any) -> Any:
    """Parse texts of the form NAME=VALUE into a mapping.

    For a trial with several roles, map each role to such a mapping.
    """
    values: dict[str, Any] = {}
    where = f"'--{option}'"
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE.", param_hint=where)
        among = values
        if len(roles) > 1:
            role, dot, name = name.partition(".")
            if not dot or role not in roles:
                listed = ", ".join(roles)
                raise click.BadParameter(
                    f"{text!r} does not name a role ({listed}). Write "
                    f"--{option} {roles[0]}.{text.rpartition('.')[2] if dot else text}",
                    param_hint=where,
                )
            among = values.setdefault(role, {})
        if name in among:
            raise click.BadParameter(
                f"{name} is set twice. Write a list as JSON: {name}='[1, 2]'",
                param_hint=where,
            )
        among[name] = value_of(value)
    return values or None


def read_named_values(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """Parse texts of the form NAME=VALUE, with the values as in `read_argument`."""
    values: dict[str, Any] = _read(option, texts, (), read_argument) or {}
    return values


def read_argument(text: str) -> Any:
    """Parse an argument's value.

    Lists, mappings and null are parsed as JSON. Any other value is a number, a boolean or text.

    >>> [read_argument(text) for text in ("0.1", "true", "[64, 32]", "null", "[adam", "x y")]
    [0.1, True, [64, 32], None, '[adam', 'x y']
    """
    from windlass.authoring.checks.command_line import read_value

    if text == "null" or text[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except ValueError:
            pass  # the value is a plain text
    return read_value(text)
