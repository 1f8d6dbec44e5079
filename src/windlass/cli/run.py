"""`windlass run`: a script or a command, as a recorded trial."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.parameters import complete_accelerators, complete_files

if TYPE_CHECKING:
    from windlass.authoring.options import Options
    from windlass.cli.targets import Target
    from windlass.client.resources import Trial
    from windlass.client.session import Client
    from windlass.client.submission import Draft
    from windlass.model.wire import StreamEnd

_EXAMPLES = """Examples:

\b
  windlass run train.py --lr 0.1
  windlass run --cpus 4 --timeout 2h train.py --lr 0.1
  windlass run --detach -- python -m pkg.train
"""


@click.command(
    short_help="Run a script or a command as a recorded trial.",
    context_settings={"allow_interspersed_args": False},
    epilog=_EXAMPLES,
)
@click.option(
    "--accelerator",
    metavar="NAME",
    shell_complete=complete_accelerators,
    help="What it computes on: a100, a100x2, gpu, cpu.",
)
@click.option("--cpus", type=float, metavar="N", help="CPUs set aside for it (1).")
@click.option("--memory", metavar="SIZE", help="Memory set aside for it: 16GB.")
@click.option("--backend", metavar="NAME", help="Where it runs: local.")
@click.option("--container-image", metavar="IMAGE", help="The image it runs in.")
@click.option("--env", multiple=True, metavar="K=V", help="A variable for its environment.")
@click.option(
    "--secret",
    multiple=True,
    metavar="NAME",
    help="A variable to take from here; never recorded, masked in its log.",
)
@click.option(
    "--package", multiple=True, metavar="SPEC", help="A package it needs beyond this environment."
)
@click.option(
    "--requirements",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="A file that lists such packages.",
)
@click.option("--retries", type=int, default=0, metavar="N", help="Starts again when it fails (0).")
@click.option("--timeout", metavar="TIME", help="How long it may run: 4h.")
@click.option("--name", metavar="TEXT", help="What the trial is called (the script).")
@click.option("--experiment", metavar="TEXT", help="The experiment it belongs to (the script).")
@click.option("--cluster", metavar="NAME", help="The standing cluster it runs on.")
@click.option(
    "--volume",
    multiple=True,
    metavar="TARGET=SOURCE",
    shell_complete=complete_files,
    help="Something it sees beyond the code: data=/path/to/data.",
)
@click.option("--spot", is_flag=True, help="May run on machines that can be taken away.")
@click.option("-d", "--detach", is_flag=True, help="Do not wait for it.")
@click.option("--json", "as_json", is_flag=True, help="With --detach: print the trial as JSON.")
@click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]... | -- COMMAND [ARGS]...",
    shell_complete=complete_files,
)  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context, /, words: tuple[str, ...], detach: bool, as_json: bool, **given: Any
) -> int:
    """Run a Python script of this project, or any command after --, as a recorded trial.

    Its output is shown as it comes, and this command ends with its exit code. Ctrl-C stops
    it. Everything after the script goes to the script.
    """
    if not words:
        raise click.UsageError("Name a script, or a command after --.", ctx)
    if as_json and not detach:
        raise click.UsageError("--json goes with --detach: otherwise the output is its own.", ctx)
    options = _read_options(given)

    from windlass.cli.targets import find_target
    from windlass.client.session import default_client
    from windlass.client.view import View
    from windlass.client.watching import run_and_watch

    target = find_target(words)
    _keep_secrets(options, words)
    client = default_client()
    with View() as view:
        view.status(f"{target.name}: looking for the server")
        _ = client.transport.endpoint
        view.status(f"{target.name}: packaging")
        draft = _draft(client, options, target)
        view.status(f"{target.name}: sending")
        if detach:
            submitted = client.submit(draft)
        else:
            trial, end = run_and_watch(client, draft, view)
    if detach:
        _tell(submitted, as_json=as_json)
        return 0
    return _conclude(trial, end)


def _read_options(given: dict[str, Any]) -> Options:
    from windlass.authoring.options import Options
    from windlass.cli.wording import as_options
    from windlass.model.errors import InvalidArgument

    requirements = given.pop("requirements")
    packages = [*given.pop("package")]
    if requirements is not None:
        from windlass.packaging.environments import read_requirements

        packages = [*read_requirements(Path(requirements)), *packages]
    options = Options(
        env=_pairs("env", given.pop("env"), "NAME=VALUE"),
        secrets=list(given.pop("secret")) or None,
        volumes=_pairs("volume", given.pop("volume"), "TARGET=SOURCE"),
        packages=packages or None,
        **given,
    )
    try:
        return options.check("windlass run")
    except InvalidArgument as error:
        error.hint = as_options(error.hint) if error.hint else None
        raise


def _pairs(option: str, texts: Sequence[str], form: str) -> dict[str, str] | None:
    for text in texts:
        if "=" not in text:
            raise click.BadParameter(f"{text!r} is not {form}.", param_hint=f"'--{option}'")
    return dict(text.split("=", 1) for text in texts) or None


def _keep_secrets(options: Options, words: Sequence[str]) -> None:
    """Refuse a secret where it would be recorded: command line and variables are."""
    from windlass.authoring.options import keep_secrets

    recorded = [*words, *(options.env or {}).values()]
    keep_secrets(options.secret_values(), recorded, "on the command line, which is")


def _draft(client: Client, options: Options, target: Target) -> Draft:
    from windlass.authoring.drafting import plan_for
    from windlass.model.job import ProcessCall

    plan = plan_for(client, options, target.name, target.place)
    return plan.draft([ProcessCall(argv=target.argv)], target.params)


def _tell(trial: Trial[Any], *, as_json: bool) -> None:
    """Say which trial it is and how to look at it."""
    from windlass.cli.machine import print_json
    from windlass.cli.text import paint

    if as_json:
        print_json(trial.record)
        return
    print(f"Trial {trial.id} ({trial.name}) is submitted.")
    ways = {"logs {} -f": "its output", "show {}": "how it stands", "stop {}": "stop it"}
    for way, what in ways.items():
        print(f"  windlass {way.format(trial.id):<12} " + paint(what, dim=True))


def _conclude(trial: Trial[Any], end: StreamEnd) -> int:
    """Say how it failed, if it did; the exit code is its own."""
    from windlass.cli.text import say_error
    from windlass.cli.wording import as_options
    from windlass.model.errors import TrialFailed
    from windlass.model.records import TrialState

    if end.trial.state is TrialState.SUCCEEDED:
        return 0
    error = trial.outcome(end).error
    if isinstance(error, TrialFailed):
        error.log_tail = ()  # it was all shown a moment ago
        error.hint = as_options(error.hint) if error.hint else None
    say_error(str(error))
    return end.trial.exit_code or 1
