"""The `windlass` command, and the table of its subcommands."""

from __future__ import annotations

import click

from windlass.cli.options.lazy_groups import LazyGroup, print_full_help
from windlass.version import __version__

# The commands under each heading, in the order of `windlass --help`.
SECTIONS = {
    "Everyday commands": {
        "run": "Run a script or a command as a recorded trial.",
        "ls": "List trials, newest first.",
        "show": "Show the record of a trial: state, code, timeline.",
        "logs": "Print or search the output of trials.",
        "metrics": "Print or plot the metrics of trials.",
        "result": "Print the return value of a trial.",
        "compare": "Compare the parameters and metrics of trials side by side.",
        "rerun": "Run a trial again, unchanged or with changes.",
        "stop": "Stop trials.",
        "doctor": "Check the installation and suggest fixes.",
    },
    "Running trials and jobs": {
        "continue": "Start a new trial from a checkpoint.",
        "suspend": "Stop trials so that they can be resumed.",
        "resume": "Resume suspended trials.",
        "scale": "Change the number of replicas of a trial.",
        "tasks": "List the replicas of a trial with their resources.",
        "queue": "List waiting trials and why each one waits.",
        "priority": "Change the priority of a trial in the queue.",
        "command": "Run a command outside of trials: nvidia-smi, df -h.",
        "shell": "Open a terminal in the code and environment of a trial.",
    },
    "Records and files": {
        "diff": "Show the differences between two trials or experiments.",
        "code": "Download the code of a trial.",
        "checkpoint": "List, download and delete checkpoints.",
        "artifacts": "List or download the output files of a trial.",
        "tensorboard": "Start TensorBoard for trials.",
        "model": "Manage models and their versions.",
        "edit": "Rename, label, move or archive trials and experiments.",
        "rm": "Delete trials and their data.",
        "gc": "Free the disk space of deleted data.",
    },
    "Projects and templates": {
        "workspace": "Manage workspaces, which contain projects.",
        "project": "Manage projects, which contain experiments and models.",
        "template": "Manage templates: named sets of job fields.",
    },
    "Server and clusters": {
        "server": "Start, stop and inspect the server of this machine.",
        "accelerators": "List accelerator names and the devices of this machine.",
        "kubernetes": "Check a Kubernetes cluster, print roles and manifests.",
        "operator": "Run the operator for TFJob and PyTorchJob objects.",
        "completion": "Print the completion script for a shell.",
    },
}

# Maps each heading to the folder of its commands in `windlass.cli.commands`.
FOLDERS = {
    "Everyday commands": "everyday",
    "Running trials and jobs": "jobs",
    "Records and files": "records",
    "Projects and templates": "projects",
    "Server and clusters": "infrastructure",
}

COMMANDS = {name: text for commands in SECTIONS.values() for name, text in commands.items()}

# Maps other tools' command names to the Windlass commands to suggest instead.
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
    sections=SECTIONS,
    folders=FOLDERS,
    elsewhere=ELSEWHERE,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: windlass run train.py --lr 0.1\n\n"
    "The newest trial: windlass show last\n\nHelp on a command: windlass COMMAND --help",
)
@click.version_option(__version__, "--version", message="windlass %(version)s")
@click.option(
    "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=print_full_help,
    help="Describe every command and exit.",
)  # fmt: skip
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Run training code as trials, and keep a record of every trial."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
