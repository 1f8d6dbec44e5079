"""The table of child trials in `windlass show`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.client.client import Client
    from windlass.client.resources.trial.trial import Trial

_MOST = 50


def print_children(client: Client, trial: Trial[Any]) -> None:
    """Print the child trials that a generator added. Print nothing for a trial without children."""
    from windlass.cli.output.table import Cell, Column, print_table
    from windlass.cli.output.text import clean, paint, state_colour
    from windlass.client.resources.trial.list_query import list_trials
    from windlass.client.resources.trial.replica_names import is_generated
    from windlass.client.terminal.experiment_progress import differing
    from windlass.display.trial_cells import format_run_time, outcome_of, short_params

    if not is_generated(trial.record):
        return
    children = list_trials(client.transport, parent_id=trial.id, limit=_MOST + 1)
    records = [child.record for child in children]
    print()
    print(paint("Trials", bold=True))
    if not records:
        print(paint("  none yet" if not trial.is_finished else "  none", dim=True))
        return
    now = time.time()
    vary = differing([trial.record, *records])
    columns = [
        Column("  ID", is_number=True), Column("NAME", shrinks=True), Column("STATE"),
        Column("PARAMETERS", shrinks=True), Column("TOOK", is_number=True),
        Column("OUTCOME", shrinks=True),
    ]  # fmt: skip
    rows = [
        [
            f"  {record.id}",
            clean(record.name + (" (auxiliary)" if record.auxiliary else "")),
            Cell(record.state.value, state_colour(record.state)),
            short_params({name: record.params[name] for name in vary if name in record.params}),
            format_run_time(record, now),
            outcome_of(record),
        ]
        for record in records[:_MOST]
    ]
    print_table(columns, rows)
    if len(records) > _MOST:
        print(paint(f"  and more: windlass ls -e {trial.experiment} --all", dim=True))
