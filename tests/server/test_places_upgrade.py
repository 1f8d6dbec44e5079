"""A database of free project texts becomes one of projects in workspaces, nothing lost."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from windlass.model.records import TrialRecord
from windlass.model.wire import ExperimentPage
from windlass.server.database import Database
from windlass.server.experiments import ExperimentStore
from windlass.server.migrations.migrate import migrate
from windlass.server.places import PlaceStore
from windlass.server.trials import TrialStore

TEXTS = ("default", "vision", "team/speech", "vision", "a/b/c", "/odd", "odd/", " spaced ")
PLACES = (
    "default", "vision", "team/speech", "vision", "a/b-c", "odd", "odd", "spaced",
)  # fmt: skip
SPEC = '{"roles": [{"executable": {"type": "process", "argv": ["true"]}}]}'


def old_database(path: Path) -> None:
    """What the schema before had: an experiment of each text, with a trial."""
    migrate(path, to="0007")
    with sqlite3.connect(path) as connection:
        for number, text in enumerate(TEXTS, start=1):
            connection.execute(
                "INSERT INTO experiments (id, project, name, created, uid)"
                " VALUES (?, ?, 'sweep', 1.0, ?)",
                [number, text, f"uid-{number}"],
            )
            connection.execute(
                "INSERT INTO trials (uid, experiment_id, name, state, settled, created, restarts,"
                " signal, reason, message, priority, user, params, spec, status, provenance)"
                " VALUES (?, ?, 'sweep', 'SUCCEEDED', 1, 1.0, 0, '', '', '', 0, '', '{}', ?, '{}',"
                " '{}')",
                [f"{number:032x}", number, SPEC],
            )


def test_every_text_becomes_a_project_by_which_all_is_found_as_before(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    old_database(path)
    database = Database(path)

    async def look() -> tuple[list[TrialRecord], list[ExperimentPage], dict[str, int]]:
        trials, experiments = TrialStore(database), ExperimentStore(database)
        records = [await trials.record(number) for number in range(1, len(TEXTS) + 1)]
        pages = [
            await experiments.page(
                project=place, name=None, labels=(), sort="id", cursor=None, limit=100
            )
            for place in PLACES
        ]
        found = await PlaceStore(database).list_projects(
            workspace=None, name=None, archived=None, sort="id", cursor=None, limit=100
        )
        return records, pages, {each.place: each.experiments for each in found.items}

    records, pages, projects = asyncio.run(look())
    database.close()
    assert [record.project for record in records] == list(PLACES)
    for number, page in enumerate(pages, start=1):
        assert number in [record.id for record in page.items]
    assert projects == {
        "default": 1, "vision": 2, "team/speech": 1, "a/b-c": 1, "odd": 2, "spaced": 1,
    }  # fmt: skip


def test_the_defaults_are_the_first_whether_the_database_is_new_or_old(tmp_path: Path) -> None:
    old_database(tmp_path / "old.db")
    migrate(tmp_path / "empty.db", to="0007")
    for name in ("old.db", "empty.db", "new.db"):
        Database(tmp_path / name).close()
        with sqlite3.connect(tmp_path / name) as connection:
            workspace = connection.execute("SELECT name, created FROM workspaces WHERE id = 1")
            project = connection.execute(
                "SELECT name, workspace_id, created FROM projects WHERE id = 1"
            )
            [(called, made)], [(named, workspace_id, since)] = (
                workspace.fetchall(),
                project.fetchall(),
            )
        assert (called, named, workspace_id) == ("default", "default", 1)
        assert abs(made - since) < 5 and made > 1_700_000_000


def test_lists_of_a_project_are_found_by_an_index(tmp_path: Path) -> None:
    """However many experiments there are, those of other projects are not looked at."""
    from windlass.server.paging import Conditions
    from windlass.server.projects import in_project

    database = Database(tmp_path / "windlass.db")
    asked = Conditions()
    in_project(asked, "experiments.project_id", "lab/vision")
    queries = (
        f"SELECT * FROM experiments{asked.text} ORDER BY id LIMIT 10",
        "SELECT trials.* FROM trials JOIN experiments ON experiments.id = trials.experiment_id"
        f"{asked.text} ORDER BY trials.created LIMIT 10",
    )
    for query in queries:
        plan = database.read(
            lambda each, query=query: [
                row["detail"] for row in each.rows(f"EXPLAIN QUERY PLAN {query}", asked.parameters)
            ]
        )
        assert not [step for step in plan if step.startswith("SCAN experiments")], plan
    database.close()
