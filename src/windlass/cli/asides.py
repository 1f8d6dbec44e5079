"""What `windlass command` and `windlass shell` share: where to run, and with what."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from windlass.cli.parameters import TRIAL_ID, complete_accelerators, complete_experiments

if TYPE_CHECKING:
    from windlass.authoring.asides import Aside
    from windlass.client.session import Client

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--trial", type=TRIAL_ID, help="In the code and environment of a trial."),
    click.option(
        "-e", "--experiment", metavar="NAME", shell_complete=complete_experiments,
        help="In those of an experiment's newest trial.",
    ),
    click.option("--code", is_flag=True, help="In a snapshot of this project."),
    click.option("--role", metavar="NAME", help="Of a trial with several: whose code is meant."),
    click.option("--env", multiple=True, metavar="K=V", help="A variable for its environment."),
    click.option("--secret", multiple=True, metavar="NAME", help="A variable to take from here."),
    click.option("--cpus", type=float, metavar="N", help="CPUs set aside for it (none)."),
    click.option("--memory", metavar="SIZE", help="Memory set aside for it: 16GB."),
    click.option(
        "--accelerator", metavar="NAME", shell_complete=complete_accelerators,
        help="What it computes on: a100, gpux2.",
    ),
    click.option("--timeout", metavar="TIME", help="How long it may run: 10m."),
    click.option("--name", metavar="TEXT", help="What it is called (the program)."),
)  # fmt: skip


def aside_options(function: F) -> F:
    """The options of a command that runs something beside the trials."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def aside_of(given: dict[str, Any]) -> Aside:
    """What the options say."""
    from windlass.authoring.asides import Aside
    from windlass.cli.composing import pairs

    experiment = given["experiment"]
    is_id = experiment is not None and experiment.isdecimal()
    env, secrets = pairs("env", given.pop("env"), "NAME=VALUE"), list(given.pop("secret"))
    given["experiment"] = int(experiment) if is_id else experiment
    return Aside(env=env, secrets=secrets or None, **given)


def tell_where(client: Client, trial_id: int | None) -> None:
    """Say that it runs on the server's machine, where the trial whose code it has does not."""
    from windlass.cli.text import say

    if trial_id is None:
        return
    trial = client.get_trial(trial_id)
    if trial.record.spec.is_local:
        return
    say(
        f"Trial {trial_id} is one of pods. This has its code, and runs on the server's machine, "
        "with what is installed there."
    )
    running = [each.pod for each in trial.replicas if each.phase == "Running" and each.pod]
    if running:
        pod = running[0]
        say(f"In its pod: kubectl -n {pod.namespace} exec -it {pod.name} -c main -- sh")
