"""The `windlass` command itself, and the table of its commands."""

from __future__ import annotations

import click

from windlass.cli.options.lazy_groups import LazyGroup
from windlass.version import __version__

COMMANDS = {
    "run": "Run a script or a command as a recorded trial.",
    "rerun": "Run a trial once more, as it was or with some things changed.",
    "continue": "Go on from a checkpoint of a trial, as a new one.",
    "ls": "List trials, newest first.",
    "show": "Show everything recorded of a trial.",
    "logs": "Print what a trial wrote, or search many.",
    "metrics": "Print or draw what trials reported.",
    "stop": "Stop trials.",
    "suspend": "Stop trials for now, to be resumed later.",
    "resume": "Let suspended trials go on.",
    "scale": "Give a trial more replicas, or fewer.",
    "rm": "Delete trials, with all that is kept of them.",
    "gc": "Free the space of what was deleted.",
    "tasks": "List the replicas of a trial, and what each was given.",
    "queue": "List who waits for room, and why.",
    "priority": "Give a trial another priority in the queue.",
    "command": "Run a command beside the trials: nvidia-smi, df -h.",
    "shell": "Open a terminal in the code and environment of a trial.",
    "workspace": "Make, list and change workspaces, which hold projects.",
    "project": "Make, list and change projects, which hold experiments.",
    "model": "Register, list and fetch models and their versions.",
    "template": "Make, list and change templates: fields that jobs share.",
    "edit": "Rename, label, describe, move or archive trials and experiments.",
    "result": "Print the value a trial returned.",
    "diff": "Show what differs between two trials.",
    "compare": "Show trials side by side: parameters that differ, and metrics.",
    "code": "Write the code a trial ran to a folder.",
    "checkpoint": "List, fetch and delete what trials saved.",
    "artifacts": "List the files a trial left, or fetch them.",
    "tensorboard": "Start TensorBoard on what trials wrote for it.",
    "accelerators": "List the accelerators there are, and those of this machine.",
    "kubernetes": "Check a Kubernetes cluster, and show what is needed there.",
    "server": "Start, stop and look at the server of this machine.",
    "operator": "Look after TFJob and PyTorchJob objects of a Kubernetes cluster.",
    "doctor": "Check the set-up, and say how to mend it.",
    "completion": "Print the completion script of a shell.",
}

# What people look for under another name.
ELSEWHERE = {
    "delete": "windlass rm ID",
    "fork": "windlass continue ID --fork",
    "kill": "windlass stop ID",
    "list": "windlass ls",
    "submit": "windlass run --detach SCRIPT",
}


@click.group(
    cls=LazyGroup,
    package="windlass.cli.commands",
    table=COMMANDS,
    elsewhere=ELSEWHERE,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Help on a command: windlass COMMAND --help",
)
@click.version_option(__version__, "--version", message="windlass %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Run functions, scripts and commands as trials, with everything that ran remembered."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
