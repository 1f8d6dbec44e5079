"""`windlass run`: run a script, a command or a job of many replicas as a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import SectionedCommand, section_options
from windlass.cli.options.parameters import (
    complete_accelerators,
    complete_choices,
    complete_experiments,
    complete_files,
    complete_frameworks,
)
from windlass.cli.options.resource_commands import complete_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from windlass.authoring.prepare.job_spec import PreparedJob
    from windlass.client.resources.trial.trial import Trial
    from windlass.model.requests import StreamEnd

_EXAMPLES = """Examples:

\b
  windlass run train.py --lr 0.1
  windlass run --cpus 4 --timeout 2h train.py --lr 0.1
  windlass run --replicas 4 --framework torch train.py
  windlass run --detach -- python -m pkg.train
  windlass run --dry-run train.py --lr 0.1
  windlass run -f job.toml
"""

_program = section_options("What runs")
_resources = section_options("Resources, of each replica")
_replicas = section_options("Replicas and restarts")
_limits = section_options("Order and end")
_recording = section_options("Submitting and recording")


@click.command(
    cls=SectionedCommand,
    short_help="Run a script or a command as a recorded trial.",
    context_settings={"allow_interspersed_args": False},
    epilog=_EXAMPLES,
)
@_program(
    "-f", "--file", type=click.Path(dir_okay=False), metavar="FILE",
    help="A job described in a file: job.toml.",
)  # fmt: skip
@_program(
    "--template", metavar="NAME", shell_complete=complete_names("templates"),
    help="A template whose fields it has where nothing else is said.",
)  # fmt: skip
@_program("--env", multiple=True, metavar="K=V", help="A variable for its environment.")
@_program(
    "--secret", multiple=True, metavar="NAME",
    help="A variable to take from here; never recorded, masked in its log.",
)  # fmt: skip
@_program(
    "--package", multiple=True, metavar="SPEC", help="A package it needs beyond this environment."
)
@_program(
    "--requirements", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="A file that lists such packages.",
)  # fmt: skip
@_program(
    "--volume", multiple=True, metavar="TARGET=SOURCE", shell_complete=complete_files,
    help="Something it sees beyond the code: data=/path/to/data; in pods /data=claim:datasets.",
)  # fmt: skip
@_resources(
    "--accelerator", metavar="NAME", shell_complete=complete_accelerators,
    help="What it computes on: a100, a100x2, gpu, cpu.",
)  # fmt: skip
@_resources("--cpus", type=float, metavar="N", help="CPUs set aside for it (1).")
@_resources("--memory", metavar="SIZE", help="Memory set aside for it: 16GB.")
@_resources("--backend", metavar="NAME", help="Where it runs: local, kubernetes.")
@_resources("--cluster", metavar="NAME", help="The standing cluster it runs on; none yet.")
@_resources("--container-image", metavar="IMAGE", help="The image it runs in.")
@_resources("--namespace", metavar="NAME", help="Where in a cluster it runs (the server's own).")
@_resources("--queue", metavar="NAME", help="The queue of a cluster it waits in: one of Kueue's.")
@_resources("--priority-class", metavar="NAME", help="The priority class of its pods in a cluster.")
@_resources("--service-account", metavar="NAME", help="The account its pods run as in a cluster.")
@_resources("--spot", is_flag=True, help="May run on machines that can be taken away; none yet.")
@_replicas("--replicas", type=int, metavar="N", help="How many run together (1).")
@_replicas(
    "--framework", metavar="NAME", shell_complete=complete_frameworks,
    help="How they find each other: torch, tensorflow, jax.",
)  # fmt: skip
@_replicas(
    "--retries", type=int, metavar="N",
    help="Starts again when it fails (0; with several replicas or a framework: 6).",
)  # fmt: skip
@_replicas(
    "--restart-policy", metavar="POLICY",
    shell_complete=complete_choices("Never", "OnFailure", "Always", "ExitCode"),
    help="When one starts again: Never, OnFailure, Always, ExitCode (128 and above).",
)  # fmt: skip
@_replicas(
    "--restart-scope", metavar="SCOPE", shell_complete=complete_choices("replica", "job"),
    help="Who starts again when one does: replica, or job: all.",
)  # fmt: skip
@_replicas("--backoff-limit", type=int, metavar="N", help="Restarts before the job fails (6).")
@_limits("--timeout", metavar="TIME", help="How long it may run: 4h.")
@_limits("--keep-last", type=int, metavar="N", help="Newest checkpoints that stay (all).")
@_limits(
    "--keep-best", metavar="TEXT", help="Checkpoints that stay besides: 'min loss', '3 max acc'."
)
@_limits("--priority", type=int, metavar="N", help="Higher ones start first (0).")
@_limits(
    "--success-policy", metavar="POLICY", shell_complete=complete_choices("AllWorkers"),
    help="With tensorflow: AllWorkers must succeed, not only the first.",
)  # fmt: skip
@_limits(
    "--clean-policy", metavar="POLICY", shell_complete=complete_choices("Running", "All", "None"),
    help="What is stopped at its end: Running, All, None.",
)  # fmt: skip
@_limits(
    "--ttl-after-finished", metavar="TIME", help="How long what it leaves running may stay: 10m."
)
@_recording("--name", metavar="TEXT", help="What the trial is called (the script).")
@_recording(
    "-e", "--experiment", metavar="TEXT", shell_complete=complete_experiments,
    help="The experiment it belongs to (the script).",
)  # fmt: skip
@_recording("--label", "labels", multiple=True, metavar="TEXT", help="A label it gets.")
@_recording("-d", "--detach", is_flag=True, help="Do not wait for it.")
@_recording("--suspend", is_flag=True, help="Let it wait for windlass resume; detaches.")
@_recording(
    "--dry-run", is_flag=True, help="Show what would run, and start nothing, not even the server."
)
@_recording(
    "--json", "as_json", is_flag=True,
    help="With --detach or --dry-run: print the trial as JSON.",
)  # fmt: skip
@click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]... | -- COMMAND [ARGS]...",
    shell_complete=complete_files,
)  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    /,
    words: tuple[str, ...],
    file: str | None,
    detach: bool,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Run a Python script of this project, or any command after --, as a recorded trial.

    Its output is shown as it comes, and this command ends with its exit code. Ctrl-C stops
    it. Everything after the script goes to the script.
    """
    if not words and file is None:
        raise click.UsageError("Name a script, or a command after --; or a job: --file.", ctx)
    if as_json and not (detach or dry_run or options["suspend"]):
        raise click.UsageError(
            "--json goes with --detach or --dry-run: otherwise the output is its own.", ctx
        )

    from windlass.cli.options.job_from_options import compose_job, read_file
    from windlass.cli.options.misplaced import note_misplaced
    from windlass.cli.options.python_to_options import as_options, errors_as_options

    if file is not None:
        # Errors about a job file keep the Python names.
        job = read_file(ctx, file, words, dry_run=dry_run)
        if dry_run:
            return _print_dry_run(job, as_json=as_json)
        return _run(job, str, detach=detach, as_json=as_json)
    with errors_as_options():
        job = compose_job(words, options, dry_run=dry_run)
        note = note_misplaced(ctx.command, words)
        if dry_run:
            return _print_dry_run(job, note, as_json=as_json)
        return _run(job, as_options, note, detach=detach, as_json=as_json)


def _print_dry_run(job: PreparedJob, note: str = "", *, as_json: bool) -> int:
    """Show what would run."""
    from windlass.cli.output.json import plain, print_json
    from windlass.cli.output.text import print_message
    from windlass.client.dry_run.client import DryClient

    client = DryClient()
    trial = client.look(job.draft(client))
    if note:
        print_message(note)
    if as_json:
        fields = {**plain(trial.record), "state": trial.state, "id": None}
        print_json({**fields, "commands": trial.commands})
    else:
        trial.show()
    return 0


def _run(
    job: PreparedJob, rephrase: Callable[[str], str], note: str = "", *, detach: bool, as_json: bool
) -> int:
    from windlass.client.client import default_client
    from windlass.client.terminal.view import View
    from windlass.client.terminal.watch_trial import run_and_watch

    client = default_client()
    with View() as view:
        if note:
            view.note(note)
        view.status(f"{job.name}: looking for the server")
        _ = client.transport.endpoint
        view.status(f"{job.name}: packaging")
        draft = job.draft(client)
        view.status(f"{job.name}: sending")
        # A suspended trial waits for `windlass resume`, so watching it is no use.
        if detach or job.outline.suspend:
            submitted = client.submit(draft)
        else:
            trial, end = run_and_watch(client, draft, view)
    if detach or job.outline.suspend:
        print_submitted(submitted, as_json=as_json)
        return 0
    return report_end(trial, end, rephrase)


def print_submitted(trial: Trial[Any], *, as_json: bool) -> None:
    """Print the submitted trial and the commands that show it."""
    from windlass.cli.output.json import print_json
    from windlass.cli.output.text import paint

    if as_json:
        print_json(trial.record)
        return
    is_suspended = trial.record.spec.suspend
    how = "submitted, and waits to be resumed" if is_suspended else "submitted"
    print(f"Trial {trial.id} ({trial.name}) is {how}.")
    ways = {"logs {} -f": "its output", "show {}": "how it stands", "stop {}": "stop it"}
    if is_suspended:
        ways = {"resume {}": "let it run", **ways}
    for way, what in ways.items():
        print(f"  windlass {way.format(trial.id):<12} " + paint(what, dim=True))


def report_end(trial: Trial[Any], end: StreamEnd, rephrase: Callable[[str], str]) -> int:
    """Print the error if the trial failed. Returns the trial's exit code."""
    from windlass.cli.output.text import print_error
    from windlass.model.errors import TrialFailed
    from windlass.model.records import TrialState

    if end.trial.state is TrialState.SUCCEEDED:
        return 0
    error = trial.outcome(end).error
    if isinstance(error, TrialFailed):
        error.log_tail = ()  # the log was shown before
        error.hint = rephrase(error.hint) if error.hint else None
    print_error(str(error))
    return end.trial.exit_code or 1
