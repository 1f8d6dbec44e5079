"""The trials that a generator added to another, as `windlass show` lists them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.client.session import Client
    from windlass.client.trials import Trial

_MOST = 50


def print_children(client: Client, trial: Trial[Any]) -> None:
    """List what a trial of a generator consists of; nothing of any other."""
    from windlass.cli.ls import how_long, outcome_of, short_params
    from windlass.cli.tables import Cell, Column, print_table
    from windlass.cli.text import clean, paint, state_colour
    from windlass.client.listing import list_trials
    from windlass.client.naming import is_generated
    from windlass.client.progress import differing

    if not is_generated(trial.record):
        return
    children = list_trials(client.transport, parent_id=trial.id, limit=_MOST + 1)
    found = [child.record for child in children]
    print()
    print(paint("Trials", bold=True))
    if not found:
        print(paint("  none yet" if not trial.is_finished else "  none", dim=True))
        return
    now = time.time()
    vary = differing([trial.record, *found])
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
            how_long(record, now),
            outcome_of(record),
        ]
        for record in found[:_MOST]
    ]
    print_table(columns, rows)
    if len(found) > _MOST:
        print(paint(f"  and more: windlass ls -e {trial.experiment} --all", dim=True))
