"""The server's log has a bound, and its end is always in the same file."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from harness import Project
from windlass.server.log_file import RepetitionFilter

LARGEST = 20_000
FLOOD = f"""
import logging, os, sys
from pathlib import Path
from windlass.server.log_file import open_log

path = Path(sys.argv[1])
fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.dup2(fd, 2)
open_log(path, {LARGEST})
for number in range(5000):
    exec(f"logging.getLogger('windlass').info('entry {{number}}')")  # each of another kind
sys.stderr.write("the last words\\n")
"""


@pytest.mark.finding("A2")
def test_the_log_has_a_bound_and_standard_error_stays_in_it(
    project: Project, tmp_path: Path
) -> None:
    project.write("flood.py", FLOOD.replace('exec(f"', 'exec(chr(10) * number + f"'))
    log = tmp_path / "server.log"
    assert project.python("flood.py", log).returncode == 0
    older = tmp_path / "server.log.1"
    assert sorted(tmp_path.glob("server.log*")) == [log, older]
    assert older.stat().st_size <= LARGEST
    assert log.stat().st_size <= LARGEST + 100
    *_, entry, last = log.read_text().splitlines()
    assert entry.endswith("entry 4999")
    assert last == "the last words"


@pytest.mark.finding("A2")
def test_entries_of_one_kind_are_limited_and_counted() -> None:
    repetitions = RepetitionFilter(often=3, period=0.0)
    frequent = RepetitionFilter(often=3, period=1000.0)

    def entry(line: int, number: int) -> logging.LogRecord:
        return logging.LogRecord("windlass", 30, "file.py", line, "entry %d", (number,), None)

    assert [frequent.filter(entry(1, number)) for number in range(5)] == [True] * 3 + [False] * 2
    assert frequent.filter(entry(2, 0))
    assert all(repetitions.filter(entry(1, number)) for number in range(5))  # a period for each


def test_the_number_of_dropped_entries_is_logged_later(monkeypatch: pytest.MonkeyPatch) -> None:
    from windlass.server import log_file

    now = 0.0
    monkeypatch.setattr(log_file.time, "monotonic", lambda: now)
    repetitions = RepetitionFilter(often=2, period=60.0)
    records = []
    for now in (0.0, 1.0, 2.0, 3.0, 61.0):  # noqa: B007 -- the clock of the filter
        record = logging.LogRecord("windlass", 30, "file.py", 1, "it failed: %s", ("why",), None)
        if repetitions.filter(record):
            records.append(record.getMessage())
    expected = "it failed: why (and 2 more of this kind before)"
    assert records == ["it failed: why", "it failed: why", expected]
