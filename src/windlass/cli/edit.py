"""`windlass edit`: what people note on trials and experiments."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.keeping import complete_names
from windlass.cli.parameters import TRIAL_ID, complete_experiments

_OF_EXPERIMENTS = ("project", "archived")


@click.command(
    short_help="Rename, label, describe, move or archive trials and experiments.",
)
@click.argument("trial_ids", type=TRIAL_ID, nargs=-1, metavar="[ID...]")
@click.option(
    "-e", "--experiment", metavar="NAME", shell_complete=complete_experiments,
    help="An experiment, by name or id.",
)  # fmt: skip
@click.option("--name", metavar="TEXT", help="What it is called.")
@click.option("--description", metavar="TEXT", help="What it is about.")
@click.option("--notes", metavar="TEXT", help="Notes, in place of those that were there.")
@click.option("-l", "--label", "labels", multiple=True, metavar="TEXT", help="A label more.")
@click.option("--remove-label", "gone", multiple=True, metavar="TEXT", help="A label less.")
@click.option("--priority", type=int, metavar="N", help="Higher ones start first.")
@click.option(
    "--project", metavar="PROJECT", shell_complete=complete_names("projects"),
    help="Of an experiment: the project to move it to.",
)  # fmt: skip
@click.option(
    "--archive/--unarchive", "archived", default=None,
    help="Of an experiment: leave it out of lists, or have it there again.",
)  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context, /, trial_ids: tuple[int, ...], experiment: str | None, **given: Any
) -> int:
    """Rename, label, describe, move or archive trials and experiments.

    What is not named stays as it is.
    """
    from windlass.cli.steering import called, steer

    said = {name: value for name, value in given.items() if value not in (None, ())}
    if bool(trial_ids) is (experiment is not None):
        but = ", not both" if trial_ids else ""
        raise click.UsageError(f"Say which: the ids of trials, or --experiment NAME{but}.", ctx)
    if not said:
        raise click.UsageError("Say what to change: --name, --label, --notes and so on.", ctx)
    unfit = [name for name in said if name in _OF_EXPERIMENTS]
    if trial_ids and unfit:
        option = "--archive" if unfit[0] == "archived" else "--project"
        raise click.UsageError(f"{option} is said of an experiment: --experiment NAME.", ctx)
    if experiment is not None:
        return _edit_experiment(experiment, said)

    def edit(trial: Any) -> str:
        change(trial, said)
        return f"{called(trial)} is changed."

    return steer(list(trial_ids), edit)


def _edit_experiment(name: str, said: dict[str, Any]) -> int:
    from windlass.client.session import default_client

    found = default_client().get_experiment(name)
    if "project" in said:
        found.move_to(said["project"])
    if "archived" in said:
        found.archive() if said["archived"] else found.unarchive()
    change(found, said)
    told = []
    if "project" in said:
        told.append(f"is in the project {found.project}")
    if "archived" in said:
        told.append("is archived" if found.archived else "is in lists again")
    print(f"Experiment {found.id} ({found.name}) {', '.join(told) or 'is changed'}.")
    return 0


def change(thing: Any, said: dict[str, Any]) -> None:
    """Change what was said of a trial, an experiment, a model or a version of one."""
    for option in ("name", "description", "notes", "priority"):
        if option in said:
            getattr(thing, f"set_{option}")(said[option])
    if "labels" in said:
        thing.add_label(*said["labels"])
    if "gone" in said:
        thing.remove_label(*said["gone"])
    if "metadata" in said:
        from windlass.cli.rerun import read_named

        thing.add_metadata(**read_named("metadata", said["metadata"]))
    if "gone_metadata" in said:
        thing.remove_metadata(*said["gone_metadata"])
