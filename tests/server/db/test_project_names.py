"""Projects by name: queries use an index."""

from __future__ import annotations

from pathlib import Path

from windlass.server.db.paging import Conditions
from windlass.server.db.project_names import require_project
from windlass.server.db.sqlite import SqliteDatabase


def test_lists_of_a_project_use_an_index(tmp_path: Path) -> None:
    """Experiments of other projects are not read."""
    database = SqliteDatabase(tmp_path / "windlass.db")
    conditions = Conditions()
    require_project(conditions, "experiments.project_id", "lab/vision")
    queries = (
        f"SELECT * FROM experiments{conditions.text} ORDER BY id LIMIT 10",
        "SELECT trials.* FROM trials JOIN experiments ON experiments.id = trials.experiment_id"
        f"{conditions.text} ORDER BY trials.created LIMIT 10",
    )
    for query in queries:
        plan = database.read(
            lambda connection, query=query: [
                row["detail"]
                for row in connection.rows(f"EXPLAIN QUERY PLAN {query}", conditions.parameters)
            ]
        )
        assert not [step for step in plan if step.startswith("SCAN experiments")], plan
    database.close()
