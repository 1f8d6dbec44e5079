"""Lists of trials have the same rows in the same order, whichever way they are read."""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from windlass.model.errors import InvalidArgument
from windlass.model.job import JobSpec, ProcessCall, Role
from windlass.model.requests import CreateTrial
from windlass.server.db.base import Connection
from windlass.server.db.paging import encode_cursor
from windlass.server.db.sqlite import SqliteDatabase
from windlass.server.db.sqlite_connection import SqliteConnection
from windlass.server.stores.trials import ordered_scan
from windlass.server.stores.trials.list_query import TrialQuery, find_rows
from windlass.server.stores.trials.rows import insert

INF, NAN = math.inf, math.nan
ABSENT: Any = object()
LR = (0.1, ABSENT, 3, "auto", True, None, "inf", -2.5, "", "3", False, 1e-300, 2**53 + 1, "-inf")
LOSS = (0.5, ABSENT, NAN, INF, 0.25, -INF, 0.1 + 0.2, 0.30000000000000004, 0.3, 1e300, -0.0)
COUNT = 60
SPEC = JobSpec(roles=(Role(executable=ProcessCall(argv=("true",))),))

Trial = dict[str, Any]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("list") / "windlass.db"
    database = SqliteDatabase(path)
    database.write(lambda connection: [add(connection, trial) for trial in TRIALS])
    database.close()
    return path


def numbered(number: int) -> Trial:
    lr, loss = LR[number % len(LR)], LOSS[number % len(LOSS)]
    params = {"seed": number, "word": f"w{number % 7}", **({} if lr is ABSENT else {"lr": lr})}
    return {"id": number, "created": 1000.0 - number // 3, "params": params, "loss": loss}


TRIALS = [numbered(number) for number in range(1, COUNT + 1)]


def add(connection: Connection, trial: Trial) -> None:
    request = CreateTrial(
        key=uuid.uuid4().hex, experiment=f"e{trial['id'] % 2}", spec=SPEC,
        params=trial["params"],
    )  # fmt: skip
    trial_id = insert(connection, request).record.id
    assert trial_id == trial["id"]
    connection.run(
        "UPDATE trials SET created = :created WHERE id = :id",
        {"id": trial_id, "created": trial["created"]},
    )
    if trial["loss"] is not ABSENT:
        value = None if math.isnan(trial["loss"]) else trial["loss"]
        connection.run(
            "INSERT INTO summaries (trial_id, name, count, finite, total, mean, min, max, last,"
            " step, time) VALUES (:id, 'loss', :id % 4, 1, 0.0, :value, :value, :value, :value,"
            " 1, 1.0)",
            {"id": trial_id, "value": value},
        )


@pytest.fixture
def connection(path: Path) -> Iterator[SqliteConnection]:
    connection = SqliteConnection(path)
    yield connection
    connection.close()


def lr_key(trial: Trial) -> tuple[int, float, str]:
    value = trial["params"].get("lr")
    if isinstance(value, (bool, int, float)) or value in ("inf", "-inf"):
        return 0, float(value), ""
    return (2, 0.0, "") if value is None else (1, 0.0, value)


def loss_key(trial: Trial) -> tuple[int, float]:
    value = trial["loss"]
    return (1, 0.0) if value is ABSENT or math.isnan(value) else (0, value)


def count_key(trial: Trial) -> tuple[int, float]:
    return (1, 0.0) if trial["loss"] is ABSENT else (0, trial["id"] % 4)


SORTS: dict[str, Callable[[Trial], tuple[Any, ...]]] = {
    "id": lambda _: (0,),
    "created": lambda trial: (0, trial["created"]),
    "hparams.lr": lr_key,
    "hparams.seed": lambda trial: (0, trial["params"]["seed"]),
    "hparams.word": lambda trial: (1, trial["params"]["word"]),
    "metrics.loss": loss_key,
    "loss.min": loss_key,
    "metrics.loss.mean": loss_key,
    "metrics.loss.count": count_key,
}
FILTERS: dict[str | None, Callable[[Trial], bool]] = {
    None: lambda _: True,
    "hparams.seed > 40": lambda trial: trial["id"] > 40,
    "hparams.seed = 7": lambda trial: trial["id"] == 7,
    "hparams.seed = 0.5": lambda _: False,
    "metrics.loss < 0.4 and hparams.seed != 3": lambda trial: (
        loss_key(trial)[0] == 0 and trial["loss"] < 0.4 and trial["id"] != 3
    ),
    "metrics.loss >= 0.3 or hparams.lr = auto": lambda trial: (
        (loss_key(trial)[0] == 0 and trial["loss"] >= 0.3) or trial["params"].get("lr") == "auto"
    ),
    "hparams.lr >= 0.1 and hparams.lr <= 3 and metrics.loss.count > 0": lambda trial: (
        lr_key(trial)[0] == 0 and 0.1 <= lr_key(trial)[1] <= 3
        and trial["loss"] is not ABSENT and trial["id"] % 4 > 0
    ),
    "not hparams.lr = true": lambda trial: trial["params"].get("lr") is not True,
    "hparams.lr = null and experiment = 'e1'": lambda trial: (
        trial["params"].get("lr") is None and trial["id"] % 2 == 1
    ),
}  # fmt: skip


def expected(sort: str, where: str | None) -> list[int]:
    """Sort in Python: by rank and value, then by id. Ranks ascend in both directions."""
    key = SORTS[sort.removeprefix("-")]
    matching = [trial for trial in TRIALS if FILTERS[where](trial)]
    by_value = sorted(
        matching, key=lambda trial: (*key(trial)[1:], trial["id"]), reverse=sort.startswith("-")
    )
    return [trial["id"] for trial in sorted(by_value, key=lambda trial: key(trial)[0])]


def walk(connection: Connection, sort: str, where: str | None, limit: int) -> list[int]:
    """Return the ids of all pages."""
    ids: list[int] = []
    cursor = None
    while True:
        query = TrialQuery(sort=sort, where=where, cursor=cursor, limit=limit)
        rows, cursor, _ = find_rows(connection, query)
        assert len(rows) == limit or cursor is None
        ids += [row["id"] for row in rows]
        if cursor is None:
            return ids


ALL_SORTS = [sign + sort for sort in SORTS for sign in ("", "-")]


@pytest.mark.parametrize("sort", ALL_SORTS)
def test_pages_have_all_matches_once_and_in_order(
    connection: SqliteConnection, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    assert len(set(itertools.chain(*(expected(sort, where) for where in FILTERS)))) == COUNT
    for first, size, most in ((1000, 10_000, 100_000), (4, 8, 10**9), (4, 8, 0)):
        # A page takes several of the short slices. With a limit of 0, each scan gives up.
        monkeypatch.setattr(ordered_scan, "_FIRST_SLICE", first)
        monkeypatch.setattr(ordered_scan, "_SLICE", size)
        monkeypatch.setattr(ordered_scan, "_MOST", most)
        for where, limit in itertools.product(FILTERS, (2, 13)):
            assert walk(connection, sort, where, limit) == expected(sort, where), (where, limit)


@pytest.mark.parametrize(
    ("sort", "index"),
    [
        ("-id", "trials_listed"),
        ("-created", "trials_by_created"),
        ("hparams.seed", "parameters_by_number"),
        ("-hparams.word", "parameters_by_text"),
        ("-metrics.loss", "summaries_by_last"),
        ("metrics.loss.min", "summaries_by_min"),
        ("-metrics.loss.max", "summaries_by_max"),
    ],
)
def test_a_sorted_page_reads_an_index_in_order_and_sorts_nothing(
    connection: SqliteConnection, sort: str, index: str
) -> None:
    statements: list[str] = []
    raw = connection._raw
    raw.set_trace_callback(statements.append)
    where = "hparams.lr != 0.1 and metrics.loss.count >= 0 and state = 'QUEUED'"
    rows, following, _ = find_rows(connection, TrialQuery(sort=sort, where=where, limit=5))
    raw.set_trace_callback(None)
    assert (len(rows), following is None) == (5, False)
    # A list by a text first looks for numbers.
    *_, page = [text.replace("-Inf", "-9e999") for text in statements if " CROSS JOIN " in text]
    assert not any(" LEFT JOIN " in text for text in statements), "the scan gave up"
    plan = [row["detail"] for row in raw.execute(f"EXPLAIN QUERY PLAN {page}")]
    assert index in plan[0], plan
    assert not any("TEMP B-TREE" in step for step in plan), plan
    lookups = [step for step in plan if step.startswith(("SEARCH parameters", "SEARCH summaries"))]
    assert len(lookups) == 2, plan
    assert all("trial_id=?" in step for step in lookups), plan
    assert not any(step.startswith("SCAN") for step in plan[1:]), plan


def test_a_value_that_the_order_excludes_is_not_read(connection: SqliteConnection) -> None:
    statements: list[str] = []
    connection._raw.set_trace_callback(statements.append)
    query = TrialQuery(sort="-metrics.loss", where="metrics.loss < 0.3", limit=5)
    find_rows(connection, query)
    connection._raw.set_trace_callback(None)
    [page] = [text for text in statements if " CROSS JOIN " in text]
    assert "sorted.last < 0.3" in page


@pytest.mark.parametrize(
    ("sort", "keys"),
    [
        ("id", ["7"]),
        ("id", [NAN]),
        ("id", [2**63]),
        ("id", [7, 7]),
        ("created", ["1000.0", 3]),
        ("name", [3, 3]),
        ("name", ["x", "3"]),
        ("metrics.loss", [0, "0.5", 3]),
        ("metrics.loss", [0, NAN, 3]),
        ("metrics.loss", [0, 0.5]),
        ("hparams.lr", [0, 0.5, 0.5, 3]),
        ("hparams.lr", ["0", 0.5, "", 3]),
    ],
)
def test_a_cursor_with_a_value_of_another_type_is_refused(
    connection: SqliteConnection, sort: str, keys: list[Any]
) -> None:
    query = TrialQuery(sort=sort, cursor=encode_cursor(keys))
    with pytest.raises(InvalidArgument, match="The cursor is not from this list"):
        find_rows(connection, query)
