"""Prints an experiment's page, for `windlass show --experiment`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.cli.output.sections import Lines
    from windlass.model.records import ExperimentRecord


def show_experiment(id_or_name: str, *, as_json: bool) -> None:
    """Print an experiment's whole record, and count its trials by state."""
    from windlass.cli.output.json import print_json
    from windlass.cli.output.sections import print_notes, print_section
    from windlass.cli.output.text import clean, paint
    from windlass.client.client import default_client
    from windlass.model.records import count_states

    record = default_client().get_experiment(id_or_name).record
    if as_json:
        print_json(record)
        return
    title = paint(f"Experiment {record.id}", bold=True)
    counts = count_states(record.states) or "no trials"
    print(f"{title}  {clean(record.name)}  {paint(counts, bold=True)}")
    if record.description:
        print(f"  {clean(record.description)}")
    print_section("", _overview(record))
    print_section("Configuration", _config(record))
    print_section("Links", ((link.name, link.url) for link in record.links))
    print_section("Artifacts", _artifacts(record))
    print_notes(record.notes)
    print()
    print(paint(f"Its trials: windlass ls -e {record.id}", dim=True))


def _overview(record: ExperimentRecord) -> Lines:
    from windlass.cli.output.text import format_ago, format_moment

    yield "project", "" if record.project == "default" else record.project
    yield "labels", ", ".join(record.labels)
    yield "created", f"{format_moment(record.created)} ({format_ago(record.created, time.time())})"
    yield "trials", str(record.trials)
    yield "auxiliary", str(record.auxiliary or "")
    yield "searches", ", ".join(record.searches)
    yield "priority", str(record.priority or "")
    yield "archived", "yes" if record.archived else ""


def _config(record: ExperimentRecord) -> Lines:
    for name, value in record.config.items():
        yield name, json.dumps(value, ensure_ascii=False)


def _artifacts(record: ExperimentRecord) -> Lines:
    from windlass.cli.output.text import format_moment
    from windlass.model.text.quantities import format_size

    for artifact in record.artifacts:
        yield artifact.name, f"{format_size(artifact.size)}, {format_moment(artifact.created)}"
