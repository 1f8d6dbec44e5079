"""Summaries of metrics count each step of a replica once, in any order of reading."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.model.records import Summary
from windlass.model.status import ReplicaId
from windlass.server.db.sqlite import SqliteDatabase
from windlass.server.stores.metrics.columns import make_column
from windlass.server.stores.metrics.summaries import (
    Stale,
    SummaryPiece,
    Tally,
    add,
    count_column,
    read_counted,
    read_summaries,
    shares_with,
)

Rows = list[tuple[int, float, float]]  # step, time, value

TRIAL = """
INSERT INTO trials (id, uid, experiment_id, name, state, settled, created, restarts, signal,
    reason, message, priority, user, params, spec, status, provenance)
VALUES (1, 'u', 1, 'train', 'RUNNING', 0, 1.0, 0, '', '', '', 0, '', '{}', '{}', '{}', '{}')
"""


class Counting:
    """A trial whose attempts report, and a server that reads each in pieces.

    A position is the number of points of the attempt that were read.
    """

    def __init__(self, path: Path) -> None:
        self.database = SqliteDatabase(path)
        self.reported: dict[tuple[int, int], Rows] = {}  # by index and attempt
        self.database.write(
            lambda c: c.run("INSERT INTO experiments (name, created) VALUES ('n', 1)")
        )
        self.database.write(lambda c: c.run(TRIAL))

    def piece(self, index: int, attempt: int, end: int) -> SummaryPiece:
        replica = ReplicaId("worker", index, attempt)
        counted = self.database.read(lambda c: read_counted(c, 1, replica))
        start = counted.positions.get(attempt, 0)
        column = make_column(self.reported[index, attempt][start:end])

        def reread(number: int, steps: Mapping[str, int], position: int) -> dict[str, Tally]:
            earlier = make_column(self.reported[index, number][:position])
            return {name: count_column(earlier.below(step)) for name, step in steps.items()}

        columns = {"loss": column} if column.values else {}
        return SummaryPiece(
            "u", 1, replica, end, counted, *shares_with(counted, attempt, columns, reread)
        )

    def count(self, index: int, attempt: int, end: int) -> None:
        piece = self.piece(index, attempt, end)
        self.database.write(lambda c: add(c, piece))

    @property
    def summary(self) -> Summary | None:
        summaries = self.database.read(lambda c: read_summaries(c, [1]))
        return summaries.get(1, {}).get("loss")

    def expected(self) -> Rows:
        """The rule in another form: the points that count of all reported ones."""
        counted: Rows = []
        for (index, attempt), rows in self.reported.items():
            later = [
                row[0]
                for (other, number), others in self.reported.items()
                if other == index and number > attempt
                for row in others
            ]
            counted += [row for row in rows if not later or row[0] < min(later)]
        return counted


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[Counting]:
    made = Counting(tmp_path / "windlass.db")
    yield made
    made.database.close()


def test_a_later_attempt_counts_from_its_first_step_on(counting: Counting) -> None:
    counting.reported = {
        (0, 1): [(step, 1.0 + step, 100.0 + step) for step in range(10)],
        (0, 2): [(step, 50.0 + step, float(step)) for step in range(6, 12)],
    }
    counting.count(0, 1, 10)
    before = counting.summary
    assert before is not None
    assert (before.count, before.max, before.last) == (10, 109.0, 109.0)
    counting.count(0, 2, 6)
    after = counting.summary
    assert after is not None
    assert (after.count, after.min, after.max, after.last, after.step) == (12, 6.0, 105.0, 11.0, 11)
    assert after.mean == (sum(range(100, 106)) + sum(range(6, 12))) / 12


def test_an_attempt_that_is_read_late_does_not_replace_a_later_one(counting: Counting) -> None:
    counting.reported = {(0, 1): [(0, 1.0, 9.0), (1, 2.0, 9.0)], (0, 2): [(1, 3.0, 4.0)]}
    counting.count(0, 2, 1)
    counting.count(0, 1, 2)
    summary = counting.summary
    assert summary is not None
    assert (summary.count, summary.min, summary.max, summary.last) == (2, 4.0, 9.0, 4.0)


def test_the_same_step_reported_twice_by_one_attempt_counts_twice(counting: Counting) -> None:
    counting.reported = {(0, 1): [(3, 1.0, 1.0), (3, 2.0, 2.0)]}
    counting.count(0, 1, 2)
    assert counting.summary == Summary(count=2, min=1.0, max=2.0, mean=1.5, last=2.0, step=3)


def test_a_piece_that_another_reader_counted_is_not_counted_again(
    counting: Counting,
) -> None:
    counting.reported = {(0, 1): [(0, 1.0, 1.0)], (0, 2): [(0, 2.0, 2.0)]}
    one, other = counting.piece(0, 1, 1), counting.piece(0, 2, 1)
    counting.database.write(lambda c: add(c, one))
    for stale in (one, other):  # itself, and one that does not know of it
        with pytest.raises(Stale):
            counting.database.write(lambda c, piece=stale: add(c, piece))
    counting.count(0, 2, 1)
    assert counting.summary == Summary(count=1, min=2.0, max=2.0, mean=2.0, last=2.0, step=0)


REPORTS = st.lists(
    st.tuples(
        st.integers(0, 1),  # index
        st.integers(1, 4),  # attempt
        st.integers(0, 12),  # step
        st.one_of(st.integers(-5, 5).map(float), st.sampled_from([math.nan, math.inf, -math.inf])),
    ),
    max_size=40,
)


@given(reports=REPORTS, chance=st.randoms(use_true_random=False))
def test_summaries_follow_the_rule_in_any_order_of_reading(
    tmp_path_factory: pytest.TempPathFactory, reports: list[tuple[int, int, int, float]], chance
) -> None:
    counting = Counting(tmp_path_factory.mktemp("counted") / "windlass.db")
    try:
        for time, (index, attempt, step, value) in enumerate(reports):
            counting.reported.setdefault((index, attempt), []).append((step, float(time), value))
        position = dict.fromkeys(counting.reported, 0)
        while left := [key for key, end in position.items() if end < len(counting.reported[key])]:
            key = chance.choice(left)
            position[key] = chance.randint(position[key] + 1, len(counting.reported[key]))
            counting.count(*key, position[key])
        _check(counting.summary, counting.expected())
    finally:
        counting.database.close()


def _check(summary: Summary | None, counted: Rows) -> None:
    if summary is None:
        assert not counted
        return
    values = [value for _, _, value in counted]
    numbers = [value for value in values if value == value]
    finite = [value for value in values if math.isfinite(value)]
    step, _, last = max(counted, key=lambda row: row[1])
    assert summary.count == len(values)
    assert summary.min == min(numbers, default=None)
    assert summary.max == max(numbers, default=None)
    assert summary.mean == (pytest.approx(sum(finite) / len(finite)) if finite else None)
    assert (repr(summary.last), summary.step) == (repr(last), step)
