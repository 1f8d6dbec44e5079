"""Lines of several replicas stay whole and separate, and progress bars show their last state."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from windlass.client.resources.trial.logs.lines import LineJoiner, LogLine
from windlass.client.terminal.interleave import Lanes, OutputLine
from windlass.model.logs import LogPart

NAMES = ["chief-0", "worker-0", "worker-1"]


@st.composite
def outputs(draw: st.DrawFn) -> list[LogPart]:
    """Pieces of lines of some replicas, some of which restart now and then."""
    attempts = dict.fromkeys(NAMES, 1)
    parts = []
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=40)):
        role, _, index = name.partition("-")
        attempts[name] += draw(st.sampled_from([0, 0, 0, 0, 1]))
        parts.append(
            LogPart(
                time=float(len(parts)),
                stream=draw(st.sampled_from(["stdout", "stderr"])),
                text=draw(st.text("ab\r", max_size=4)),
                end=draw(st.booleans()),
                role=role,
                index=int(index),
                attempt=attempts[name],
            )
        )
    return parts


def by_lane(lines: list[OutputLine]) -> dict[tuple[str, str], list[str]]:
    ordered = sorted(lines, key=lambda line: line[:2])
    return {lane: [x.text for x in run] for lane, run in groupby(ordered, lambda item: item[:2])}


def as_line(line: LogLine) -> OutputLine:
    text = line.rstrip("\r").rpartition("\r")[2]
    return OutputLine(f"{line.role}-{line.replica_index}", line.stream, text)


@given(outputs())
def test_every_line_appears_whole_once_and_in_the_order_of_its_writer(parts: list[LogPart]) -> None:
    lanes = Lanes(NAMES)
    shown = [line for part in parts for line in lanes.feed(part)]
    shown += lanes.rest()
    # Joined by attempt: an open line ends when the next attempt begins.
    expected: list[OutputLine] = []
    for attempt in range(1, 42):
        joiner = LineJoiner()
        expected += map(as_line, joiner.feed(p for p in parts if p.attempt == attempt))
        expected += map(as_line, joiner.rest())
    assert by_lane(shown) == by_lane(expected)
    assert lanes.unended(before=float("inf")) is None


def test_incomplete_lines_are_shown_after_a_while_in_the_order_of_replicas() -> None:
    lanes = Lanes(NAMES)

    def begin(name: str, text: str, now: float) -> None:
        role, _, index = name.partition("-")
        part = LogPart(time=0, stream="stdout", text=text, end=False, role=role, index=int(index))
        assert list(lanes.feed(part, now)) == []

    begin("worker-1", "one", now=1.0)
    begin("worker-0", "two", now=2.0)
    begin("worker-0", "\rthree", now=3.0)
    assert lanes.unended(before=0.9) is None
    assert lanes.unended(before=1.0) == OutputLine("worker-1", "stdout", "one")
    assert lanes.unended(before=2.0) == OutputLine("worker-0", "stdout", "three")


def test_an_endless_line_is_not_held_back_forever() -> None:
    lanes = Lanes(NAMES)
    part = LogPart(time=0, stream="stdout", text="x" * 65536, end=False, role="worker")
    shown = [line for _ in range(40) for line in lanes.feed(part)]
    assert [len(line.text) for line in shown] == [17 * 65536, 17 * 65536]
    bar = LogPart(time=0, stream="stderr", text="\r50%", end=False, role="worker")
    assert [line for _ in range(100_000) for line in lanes.feed(bar)] == []
