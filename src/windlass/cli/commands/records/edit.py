"""Implements `windlass edit`, which changes names, labels and notes of trials and experiments."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TRIAL_ID, experiment_option
from windlass.cli.options.resource_commands import complete_names

_OF_EXPERIMENTS = ("project", "archived")


@click.command(
    short_help="Rename, label, move or archive trials and experiments.",
    epilog=examples(
        "windlass edit 7 --name baseline --label best",
        "windlass edit --experiment rates --project lab/vision",
        "windlass edit --experiment rates --archive",
    ),
)
@click.argument("trial_ids", type=TRIAL_ID, nargs=-1, metavar="[ID...]")
@experiment_option("Edit an experiment (name or id).")
@click.option("--name", metavar="TEXT", help="New name.")
@click.option("--description", metavar="TEXT", help="New description.")
@click.option("--notes", metavar="TEXT", help="New notes. They replace the old notes.")
@click.option("-l", "--label", "labels", multiple=True, metavar="TEXT", help="Add a label.")
@click.option("--remove-label", "gone", multiple=True, metavar="TEXT", help="Remove a label.")
@click.option("--priority", type=int, metavar="N", help="New priority. Higher numbers start first.")
@click.option(
    "--project", metavar="PROJECT", shell_complete=complete_names("projects"),
    help="Move an experiment to a project.",
)  # fmt: skip
@click.option(
    "--archive/--unarchive", "archived", default=None,
    help="Hide an experiment from lists, or show it again.",
)  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context, /, trial_ids: tuple[int, ...], experiment: str | None, **options: Any
) -> int:
    """Rename, label, describe, move or archive trials and experiments."""
    from windlass.cli.options.for_each_trial import change_trials, trial_label

    changes = {name: value for name, value in options.items() if value not in (None, ())}
    if bool(trial_ids) is (experiment is not None):
        but = ", not both" if trial_ids else ""
        raise click.UsageError(
            f"Name the trials by their ids, or an experiment: --experiment NAME{but}.", ctx
        )
    if not changes:
        raise click.UsageError("Name a change: --name, --label, --notes and so on.", ctx)
    unfit = [name for name in changes if name in _OF_EXPERIMENTS]
    if trial_ids and unfit:
        option = "--archive" if unfit[0] == "archived" else "--project"
        raise click.UsageError(f"{option} applies to experiments. Add --experiment NAME.", ctx)
    if experiment is not None:
        return _edit_experiment(experiment, changes)

    def edit(trial: Any) -> str:
        apply_changes(trial, changes)
        return f"{trial_label(trial)} is changed."

    return change_trials(list(trial_ids), edit)


def _edit_experiment(name: str, changes: dict[str, Any]) -> int:
    from windlass.client.client import default_client

    experiment = default_client().get_experiment(name)
    if "project" in changes:
        experiment.move_to(changes["project"])
    if "archived" in changes:
        experiment.archive() if changes["archived"] else experiment.unarchive()
    apply_changes(experiment, changes)
    results = []
    if "project" in changes:
        results.append(f"is in the project {experiment.project}")
    if "archived" in changes:
        results.append("is archived" if experiment.archived else "is in lists again")
    print(f"Experiment {experiment.id} ({experiment.name}) {', '.join(results) or 'is changed'}.")
    return 0


def apply_changes(target: Any, changes: dict[str, Any]) -> None:
    """Apply the changes from the options to a trial, experiment, model or model version."""
    for option in ("name", "description", "notes", "priority"):
        if option in changes:
            getattr(target, f"set_{option}")(changes[option])
    if "labels" in changes:
        target.add_label(*changes["labels"])
    if "gone" in changes:
        target.remove_label(*changes["gone"])
    if "metadata" in changes:
        from windlass.cli.commands.everyday.rerun import read_named_values

        target.add_metadata(**read_named_values("metadata", changes["metadata"]))
    if "gone_metadata" in changes:
        target.remove_metadata(*changes["gone_metadata"])
