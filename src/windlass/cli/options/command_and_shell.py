"""Options that `windlass command` and `windlass shell` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from windlass.cli.options.parameters import (
    NUMBER,
    TRIAL_ID,
    complete_accelerators,
    complete_experiments,
)

if TYPE_CHECKING:
    from windlass.authoring.prepare.command_and_shell import CommandOptions
    from windlass.client.client import Client

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--trial", type=TRIAL_ID, metavar="ID", help="Use the code of a trial."),
    click.option(
        "-e", "--experiment", metavar="NAME", shell_complete=complete_experiments,
        help="Use the code of an experiment's newest trial.",
    ),
    click.option("--code", is_flag=True, help="Use a snapshot of this project."),
    click.option("--role", metavar="NAME", help="Role whose code to use."),
    click.option("--env", multiple=True, metavar="K=V", help="Set an environment variable."),
    click.option("--secret", multiple=True, metavar="NAME", help="Pass on a variable, masked."),
    click.option("--cpus", type=NUMBER, metavar="N", help="Reserve CPUs (none)."),
    click.option("--memory", metavar="SIZE", help="Reserve memory: 16GB."),
    click.option(
        "--accelerator", metavar="NAME", shell_complete=complete_accelerators,
        help="Reserve accelerators: a100, gpux2.",
    ),
    click.option("--timeout", metavar="TIME", help="Maximum run time: 10m."),
    click.option("--name", metavar="TEXT", help="Name (that of the program)."),
)  # fmt: skip


def command_options(function: F) -> F:
    """Add the options of `windlass command` and `windlass shell` to a function."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def read_command_options(options: dict[str, Any]) -> CommandOptions:
    """Convert parsed click options to `CommandOptions`."""
    from windlass.authoring.prepare.command_and_shell import CommandOptions
    from windlass.cli.options.job_from_options import read_pairs

    experiment = options["experiment"]
    is_id = experiment is not None and experiment.isdecimal()
    env, secrets = read_pairs("env", options.pop("env"), "NAME=VALUE"), list(options.pop("secret"))
    options["experiment"] = int(experiment) if is_id else experiment
    return CommandOptions(env=env, secrets=secrets or None, **options)


def print_run_location(client: Client, trial_id: int | None) -> None:
    """Print a note if the trial runs in pods, because commands run on the server's machine."""
    from windlass.cli.output.text import print_message

    if trial_id is None:
        return
    trial = client.get_trial(trial_id)
    if trial.record.spec.capabilities.runs_on_server:
        return
    print_message(
        f"Trial {trial_id} runs in pods. This uses its code, but runs on the server's "
        "machine, with the packages of that machine."
    )
    running = [
        replica.pod for replica in trial.replicas if replica.phase == "Running" and replica.pod
    ]
    if running:
        pod = running[0]
        print_message(
            f"To enter its pod: kubectl -n {pod.namespace} exec -it {pod.name} -c main -- sh"
        )
