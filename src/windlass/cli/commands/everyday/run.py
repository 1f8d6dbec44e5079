"""Implements `windlass run`, which runs a script, a command or a larger job as a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import (
    SectionedCommand,
    examples,
    help_all_option,
    section_options,
)
from windlass.cli.options.parameters import (
    NUMBER,
    WholeNumber,
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

_EXAMPLES = examples(
    "windlass run train.py --lr 0.1",
    "windlass run --cpus 4 --timeout 2h train.py --lr 0.1",
    "windlass run --replicas 4 --framework torch train.py",
    "windlass run --sweep lr=0.1,0.01 --sweep layers=2,4 train.py",
    "windlass run --detach -- python -m pkg.train",
    "windlass run -f job.toml",
)

_SWEEP_OPTIONS = ("sweep", "search", "metric", "trials", "concurrent", "seed")

_program = section_options("Program")
_resources = section_options("Resources of each replica")
_replicas = section_options("Replicas and restarts")
_limits = section_options("Order, limits and cleanup")
_sweeps = section_options("Sweeps")
_recording = section_options("Submitting and recording")


class _RunCommand(SectionedCommand):
    """The `windlass run` command, with a suggestion for users who pass `-m NAME`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in ("-m", "-c"):
                raise
            what = "a module" if error.option_name == "-m" else "a line of code"
            message = (
                f"No such option {error.option_name!r}. To run {what}:\n"
                f"  {ctx.command_path} {_as_python_command(words, error.option_name)}"
            )
            raise click.NoSuchOption(error.option_name, message, ctx=error.ctx) from None


def _as_python_command(words: list[str], option: str) -> str:
    """Return a command line with `-- python` inserted before a Python option.

    >>> _as_python_command(["--cpus", "2", "-m", "pkg.train", "--lr", "0.1"], "-m")
    '--cpus 2 -- python -m pkg.train --lr 0.1'
    """
    import shlex

    at = next(i for i, word in enumerate(words) if word.startswith(option))
    return shlex.join([*words[:at], "--", "python", *words[at:]])


@click.command(
    cls=_RunCommand,
    short_help="Run a script or a command as a recorded trial.",
    context_settings={"allow_interspersed_args": False},
    epilog=_EXAMPLES,
)
@_program(
    "-f", "--file", type=click.Path(dir_okay=False), metavar="FILE",
    help="Read the job from a file: job.toml.",
)  # fmt: skip
@_program(
    "--template", metavar="NAME", shell_complete=complete_names("templates"), rare=True,
    help="Take the fields that are not set here from a template.",
)  # fmt: skip
@_program("--env", multiple=True, metavar="K=V", help="Set an environment variable.")
@_program(
    "--secret", multiple=True, metavar="NAME",
    help="Pass on a variable, masked in logs.",
)  # fmt: skip
@_program("--package", multiple=True, metavar="SPEC", help="Add a package to this environment.")
@_program(
    "--requirements", type=click.Path(exists=True, dir_okay=False), metavar="FILE", rare=True,
    help="Add the packages that a requirements file lists.",
)  # fmt: skip
@_program(
    "--volume", multiple=True, metavar="TARGET=SOURCE", shell_complete=complete_files,
    help="Mount data=/path, or in pods /data=claim:NAME.",
)  # fmt: skip
@_resources(
    "--accelerator", metavar="NAME", shell_complete=complete_accelerators,
    help="Accelerator: a100, a100x2, gpu, cpu.",
)  # fmt: skip
@_resources("--cpus", type=NUMBER, metavar="N", help="Reserve CPUs (1).")
@_resources("--memory", metavar="SIZE", help="Reserve memory: 16GB.")
@_resources("--backend", metavar="NAME", help="Where to run: local, kubernetes.")
@_resources(
    "--cluster", metavar="NAME", rare=True, help="Existing cluster to run on. Not available yet."
)
@_resources("--container-image", metavar="IMAGE", help="Container image.")
@_resources(
    "--namespace", metavar="NAME", rare=True, help="Kubernetes namespace (that of the server)."
)
@_resources("--queue", metavar="NAME", rare=True, help="Kueue queue of the cluster.")
@_resources("--priority-class", metavar="NAME", rare=True, help="Priority class of the pods.")
@_resources("--service-account", metavar="NAME", rare=True, help="Service account of the pods.")
@_resources(
    "--spot", is_flag=True, rare=True, help="Allow preemptible machines. Not available yet."
)
@_replicas("--replicas", type=int, metavar="N", help="Number of replicas (1).")
@_replicas(
    "--framework", metavar="NAME", shell_complete=complete_frameworks,
    help="Distributed training: torch, tensorflow, jax.",
)  # fmt: skip
@_replicas(
    "--retries", type=int, metavar="N",
    help="Retries after a failure (0, distributed 6).",
)  # fmt: skip
@_replicas(
    "--restart-policy", metavar="POLICY", rare=True,
    shell_complete=complete_choices("Never", "OnFailure", "Always", "ExitCode"),
    help="Restart a replica: Never, OnFailure, Always, ExitCode (128 and above).",
)  # fmt: skip
@_replicas(
    "--restart-scope", metavar="SCOPE", shell_complete=complete_choices("replica", "job"),
    rare=True, help="Restart the failed replica, or all replicas of the job: replica, job.",
)  # fmt: skip
@_replicas(
    "--backoff-limit", type=int, metavar="N", rare=True, help="Restarts before the job fails (6)."
)
@_replicas(
    "--stop-on-repeat/--no-stop-on-repeat", default=None, rare=True,
    help="Fail if a replica repeats an early exception (on, unless restarts are set).",
)  # fmt: skip
@_limits("--timeout", metavar="TIME", help="Maximum run time: 4h.")
@_limits(
    "--keep-last", type=int, metavar="N", rare=True, help="Keep only the N newest checkpoints."
)
@_limits(
    "--keep-best",
    metavar="TEXT",
    rare=True,
    help="Keep the best checkpoints, too: 'min loss', '3 max acc'.",
)
@_limits(
    "--priority", type=int, metavar="N", rare=True,
    help="Priority in the queue (0). Higher numbers start first.",
)  # fmt: skip
@_limits(
    "--success-policy", metavar="POLICY", shell_complete=complete_choices("AllWorkers"),
    rare=True, help="For tensorflow: AllWorkers must succeed, not only the first.",
)  # fmt: skip
@_limits(
    "--clean-policy", metavar="POLICY", shell_complete=complete_choices("Running", "All", "None"),
    rare=True, help="Replicas to stop when the job ends: Running, All, None.",
)  # fmt: skip
@_limits(
    "--ttl-after-finished",
    metavar="TIME",
    rare=True,
    help="How long remaining replicas may run after the end: 10m.",
)
@_sweeps(
    "--sweep", multiple=True, metavar="K=VALUES",
    help="One trial per value, as --lr=0.1: lr=0.1,0.01.",
)  # fmt: skip
@_sweeps(
    "--search", metavar="METHOD", shell_complete=complete_choices("grid", "random", "tpe", "asha"),
    rare=True, help="Choose values of lr=1e-4..1e-1 by a search: random, tpe, asha (grid).",
)  # fmt: skip
@_sweeps(
    "--metric", metavar="TEXT", rare=True, help="Optimize or sort by a metric: 'min val_loss'."
)
@_sweeps("--trials", type=int, metavar="N", rare=True, help="Number of trials of a search (50).")
@_sweeps(
    "--concurrent", type=WholeNumber(1), metavar="N", rare=True,
    help="Trials of a search that run at the same time (8).",
)  # fmt: skip
@_sweeps("--seed", type=int, metavar="N", rare=True, help="Seed of a search.")
@_recording("--name", metavar="TEXT", help="Name of the trial (the name of the script).")
@_recording(
    "-e", "--experiment", metavar="TEXT", shell_complete=complete_experiments,
    help="Experiment (the name of the script).",
)  # fmt: skip
@_recording("--label", "labels", multiple=True, metavar="TEXT", help="Add a label.")
@_recording("-d", "--detach", is_flag=True, help="Return at once. The trial runs on.")
@_recording(
    "--suspend", is_flag=True, rare=True,
    help="Submit the trial suspended, for windlass resume. Implies --detach.",
)  # fmt: skip
@_recording("--dry-run", is_flag=True, help="Show the trial, and start nothing.")
@_recording(
    "--json", "as_json", is_flag=True,
    help="Print JSON (with --detach or --dry-run).",
)  # fmt: skip
@click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]... | -- COMMAND [ARGS]...",
    shell_complete=complete_files,
)  # fmt: skip
@help_all_option
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
    """Run a Python script, or any command after --, as a recorded trial.

    The command shows the program's output as it runs, and exits with the program's exit code.
    Ctrl-C and SIGTERM stop the trial. Words after the script are passed to the script.
    """
    if not words and file is None:
        raise click.UsageError("Name a script, a command after --, or a job file with --file.", ctx)
    unused = [f"--{name}" for name in _SWEEP_OPTIONS if options[name] is not None]
    if not options["sweep"] and len(unused) > 1:
        raise click.UsageError(
            f"{unused[1]} applies to sweeps. Add --sweep NAME=VALUES, such as --sweep lr=0.1,0.01.",
            ctx,
        )
    if as_json and not (detach or dry_run or options["suspend"]):
        raise click.UsageError(
            "--json needs --detach or --dry-run. Otherwise the command prints the output "
            "of the trial.",
            ctx,
        )

    from windlass.cli.options.job_from_options import compose_job, read_file
    from windlass.cli.options.misplaced import note_misplaced
    from windlass.cli.options.python_to_options import as_options, errors_as_options

    sweep = {name: options.pop(name) for name in _SWEEP_OPTIONS}
    if file is not None:
        # Errors about a job file name options as in Python, not as on the command line.
        job = read_file(ctx, file, words, dry_run=dry_run)
        if dry_run:
            return _print_dry_run(job, as_json=as_json)
        return _run(job, str, detach=detach, as_json=as_json)
    with errors_as_options():
        note = note_misplaced(ctx.command, words)
        if sweep["sweep"]:
            from windlass.cli.commands.everyday.run_sweep import SweepOptions, run_sweep

            if note:
                click.echo(note, err=True)
            return run_sweep(
                words, options, SweepOptions(**sweep),
                detach=detach, dry_run=dry_run, as_json=as_json,
            )  # fmt: skip
        job = compose_job(words, options, dry_run=dry_run)
        if dry_run:
            return _print_dry_run(job, note, as_json=as_json)
        return _run(job, as_options, note, detach=detach, as_json=as_json)


def _print_dry_run(job: PreparedJob, note: str = "", *, as_json: bool) -> int:
    """Print what would run, without starting it."""
    from windlass.cli.output.json import plain, print_json
    from windlass.cli.output.text import print_message
    from windlass.client.dry_run.client import DryClient

    client = DryClient()
    trial = client.preview(job.draft(client))
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
        view.stage(f"{job.name}: looking for the server")
        _ = client.transport.endpoint
        view.stage(f"{job.name}: packaging")
        draft = job.draft(client)
        view.stage(f"{job.name}: sending")
        # A suspended trial waits for `windlass resume`, so there is nothing to watch.
        if detach or job.outline.suspend:
            submitted = client.submit(draft)
        else:
            trial, end = run_and_watch(client, draft, view)
    if detach or job.outline.suspend:
        print_submitted(submitted, as_json=as_json)
        return 0
    return report_end(trial, end, rephrase)


def print_submitted(trial: Trial[Any], *, as_json: bool) -> None:
    """Print a submitted trial, and commands to inspect it."""
    from windlass.cli.output.json import print_json
    from windlass.cli.output.text import paint

    if as_json:
        print_json(trial.record)
        return
    is_suspended = trial.record.spec.suspend
    how = "submitted and suspended" if is_suspended else "submitted"
    print(f"Trial {trial.id} ({trial.name}) is {how}.")
    ways = {"logs {} -f": "its output", "show {}": "see its state", "stop {}": "stop it"}
    if is_suspended:
        ways = {"resume {}": "let it run", **ways}
    for way, what in ways.items():
        print(f"  windlass {way.format(trial.id):<12} " + paint(what, dim=True))


def report_end(trial: Trial[Any], end: StreamEnd, rephrase: Callable[[str], str]) -> int:
    """Print the error if the trial failed, and return the trial's exit code."""
    from windlass.cli.output.text import print_error
    from windlass.model.errors import TrialFailed
    from windlass.model.records import TrialState

    if end.trial.state is TrialState.SUCCEEDED:
        return 0
    error = trial.outcome(end).error
    if isinstance(error, TrialFailed):
        error.is_tail_shown = True
        error.hint = rephrase(error.hint) if error.hint else None
    print_error(str(error))
    return end.trial.exit_code or 1
