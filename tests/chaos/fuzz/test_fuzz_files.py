"""Files with arbitrary contents: log segments, manifests, the files of an attempt."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chaos_seed import Chaos
from fuzz_examples import anything_but, examine, mutated, within
from hypothesis import strategies as st

from harness import eventually
from windlass.model.errors import InvalidArgument
from windlass.model.status import Phase, Replica, ReplicaId
from windlass.packaging.manifest import (
    encode_manifest,
    is_outside_link,
    link_stays_inside,
    parse_manifest,
)
from windlass.runtimes.local.attempt import Attempt
from windlass.runtimes.local.nudge_listener import NudgeListener
from windlass.server.stores.logs.cursors import Key, format_cursor, newest_attempts, parse_cursor
from windlass.server.stores.logs.files import FileLogStore
from windlass.server.stores.logs.pattern import Pattern
from windlass.server.stores.logs.segment_search import SegmentSearch
from windlass.worker.blobs.restore_tree import RestoreError, clean, read_tree, restore
from windlass.worker.common.file_reads import read_json
from windlass.worker.logs import segment_reader
from windlass.worker.logs.segment import STDERR, STDOUT, encode_lines, encode_open, read_parts

# Log segments

SEGMENT = b"".join(
    [
        encode_lines(1763244000.0, STDOUT, b"one\ntwo\n"),
        encode_open(1763244001.5, STDERR, b"50%\r"),
        encode_lines(1763244002.0, STDOUT, b" o 1763244000.000000 o\n"),
        encode_open(1763244003.0, STDOUT, b"begun"),
        encode_lines(1763244004.0, STDERR, b"100%\n"),
        encode_lines(1763244005.0, STDOUT, b" and ended\n"),
    ]
)
segments = st.binary(max_size=300) | mutated(SEGMENT) | st.lists(
    mutated(SEGMENT) | st.sampled_from([b"\0" * 700, b"x" * 700, b"\n", b"             nan o x\n"]),
    max_size=4,
).map(b"".join)  # fmt: skip


def searched(path: Path, pattern: Pattern) -> list[segment_reader.Line]:
    """All matching lines of a segment."""
    search = SegmentSearch(str(path), pattern)
    lines: list[segment_reader.Line] = []
    for line in search:
        if line is not None:
            lines += [line, *search.mark_returned(line.end)]
    return lines


def search_all(store: FileLogStore, pattern: Pattern) -> list[str]:
    """All matching lines of a log, page by page. A page may be empty after its time limit."""
    texts: list[str] = []
    cursor, has_more = None, True
    while has_more:
        page = store.search(1, pattern, cursor)
        assert page.cursor != cursor or not page.has_more
        texts += [part.text for part in page.parts]
        cursor, has_more = page.cursor, page.has_more
    return texts


def test_a_segment_of_any_bytes_has_the_same_lines_when_read_searched_or_tailed(
    chaos: Chaos, tmp_path: Path
) -> None:
    path = tmp_path / "log"

    def check(data: bytes, needle: bytes, count: int) -> None:
        path.write_bytes(data)
        parts = read_parts(data, 7)
        for time, stream, text, _, end in parts:
            assert 0 <= time < 1e10 and stream in (STDOUT, STDERR) and b"\n" not in text
            assert 7 < end <= 7 + len(data)
        lines = segment_reader.join_lines(read_parts(data))
        expected = [line for line in lines if needle in line.text]
        text = needle.decode()
        for pattern in (Pattern(text), Pattern(f"(?:{text})", is_regex=True)):
            matching_lines = searched(path, pattern)
            assert sorted(matching_lines, key=lambda line: line.start) == expected
        last, end = segment_reader.tail(str(path), count)
        assert last == (lines[-count:] if count else [])
        assert end == data.rfind(b"\n") + 1

    needles = st.sampled_from([b"o", b"50%", b"begun and", b"\0", b" ", b"1763"])
    examine(chaos, check, segments, needles, st.integers(0, 5))


def test_a_log_with_arbitrary_bytes_is_read_to_its_end(
    chaos: Chaos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page advances the cursor, and invalid records do not block the rest of the log."""
    attempt = tmp_path / "trials" / "1" / "main-0" / "1"
    attempt.mkdir(parents=True)
    store = FileLogStore(tmp_path)
    for block in ("_FIRST_BLOCK", "_BLOCK"):
        monkeypatch.setattr(f"windlass.server.stores.logs.segment_search.{block}", 512)
    last = encode_lines(1763244009.0, STDOUT, b"the last line\n")

    def check(data: bytes) -> None:
        whole = data + b"\n" + last
        (attempt / "log").write_bytes(whole)
        cursor, texts, has_more = None, [], True
        while has_more:
            page = store.read(1, cursor, size=512)  # corresponds to 256 KiB of a real log
            assert page.cursor != cursor or not page.has_more
            cursor, has_more = page.cursor, page.has_more
            texts += [part.text for part in page.parts]
            msgspec.json.encode(page.parts)
        assert texts[-1] == "the last line"
        assert parse_cursor(cursor) == {("main", 0, 1): len(whole)}
        # The end of a line whose beginning was damaged.
        assert search_all(store, Pattern("the last line"))[-1].endswith("the last line")

    examine(chaos, check, segments)


def test_a_hole_in_a_log_from_a_lost_disk_does_not_hide_later_lines(
    tmp_path: Path,
) -> None:
    attempt = tmp_path / "trials" / "1" / "main-0" / "1"
    attempt.mkdir(parents=True)
    with open(attempt / "log", "wb") as log:
        log.write(encode_lines(1763244000.0, STDOUT, b"before\n"))
        log.seek(9 << 20)
        log.write(b"\n" + encode_lines(1763244001.0, STDOUT, b"after\n"))
    store = FileLogStore(tmp_path)
    texts: list[str] = []
    with within(60):
        page = store.read(1, None)
        texts += [part.text for part in page.parts]
        while page.has_more:
            page = store.read(1, page.cursor)
            texts += [part.text for part in page.parts]
        assert texts == ["before", "after"]
        assert search_all(store, Pattern("after")) == ["after"]
        assert [part.text for part in store.tail(1, 5).parts] == ["before", "after"]


def test_the_time_for_a_line_of_many_pieces_depends_only_on_its_length(
    chaos: Chaos, tmp_path: Path
) -> None:
    """A progress bar of dots: each dot is a record, and all of them are one line."""
    path = tmp_path / "log"
    dots = chaos.pick(50_000, 900_000)
    path.write_bytes(encode_open(1763244000.0, STDOUT, b".") * dots)
    with within(60):
        for lines in (
            segment_reader.tail(str(path), 3)[0],
            searched(path, Pattern("....")),
            segment_reader.join_lines(read_parts(path.read_bytes())),
        ):
            assert [line.text for line in lines] == [b"." * dots]


def test_the_tail_of_one_stream_is_found_in_time_below_much_of_the_other(
    chaos: Chaos, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    noise = encode_lines(1763244000.0, STDOUT, b"noise\n" * 10_000)
    with open(path, "wb") as file:
        file.write(encode_lines(1763244000.0, STDERR, b"oh\n"))
        file.writelines(noise for _ in range(chaos.pick(20, 100)))
    with within(60):
        tail, end = segment_reader.tail(str(path), 3, STDERR)
    assert [line.text for line in tail] == [b"oh"]
    assert end == path.stat().st_size


def test_cursors_of_a_log_are_read_back_or_refused(chaos: Chaos) -> None:
    def check(text: str) -> None:
        try:
            places = parse_cursor(text)
        except InvalidArgument as error:
            assert "cursor" in str(error)
        else:
            check_places(places)

    def check_places(places: dict[Key, int]) -> None:
        newest = newest_attempts(places)  # a cursor of a replica names only that replica
        kept = {key: at for key, at in places.items() if key[2] == newest[key[:2]]}
        assert parse_cursor(format_cursor(places)) == kept

    valid = st.dictionaries(
        st.tuples(
            st.sampled_from(["main", "a", "ps-1", "x9", "worker-0-1"]),
            st.integers(0, 10**6 - 1),
            st.integers(1, 10**9 - 1),
        ),
        st.integers(0, 10**15 - 1),
        max_size=4,
    )
    texts = st.text(max_size=60) | mutated(b"main-0.1:4096,a-1.2:3").map(
        lambda raw: raw.decode("utf-8", "replace")
    )
    examine(chaos, check, texts)
    examine(chaos, check_places, valid)


# Manifests

CONTENT = b"hello"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
TREE = [
    ["a.py", "f", DIGEST, 5],
    ["pkg/b.sh", "x", DIGEST, 5],
    ["pkg/in/c\udcff", "f", DIGEST, 5],
    ["pkg/link", "l", "../a.py", 0],
    ["pkg/out", "l", "/nowhere/data", 0],
]
MANIFEST = encode_manifest(TREE)  # type: ignore[arg-type]


def test_a_manifest_of_any_bytes_is_refused_or_stays_inside_its_tree(
    chaos: Chaos, tmp_path: Path
) -> None:
    """Both on the server and in the supervisor, which has its own parser."""
    blobs, outside, work = tmp_path / "blobs", tmp_path / "outside", tmp_path / "outside" / "work"
    (blobs / DIGEST[:2]).mkdir(parents=True)
    (blobs / DIGEST[:2] / DIGEST).write_bytes(CONTENT)
    outside.mkdir()
    accepted = 0

    def check(data: bytes) -> None:
        nonlocal accepted
        try:
            entries = parse_manifest(data)
        except ValueError:
            entries = None
        else:
            assert encode_manifest(entries) == data, "what passes is what it says, byte for byte"
        try:
            tree = read_tree(data, outside_links=True)
        except RestoreError:
            assert entries is None, "the server takes nothing that a supervisor would refuse"
            return
        accepted += 1
        try:
            restore(tree, str(work), str(blobs))
        except (RestoreError, OSError):
            pass  # missing content; names that are too long for the file system
        assert os.listdir(outside) == ["work"]
        for folder, _, names in os.walk(work):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    here = os.path.relpath(path, work)
                    target = os.readlink(path)
                    assert link_stays_inside(here, target) or is_outside_link(target), path
        clean(tree, str(work))
        assert os.listdir(outside) == ["work"]

    examine(chaos, check, anything_but(MANIFEST) | st.just(MANIFEST), short=300)
    assert accepted, "nothing was ever restored"


@pytest.mark.parametrize("target", ["/etc", "..", "../..", "a/../../..", "", "x\0y", 5, None, []])
def test_a_link_that_leaves_the_tree_is_not_restored(target: object) -> None:
    files = [["link", "l", target, 0]]
    with pytest.raises(RestoreError, match="link"):
        read_tree(json.dumps({"files": files, "version": 1}).encode())


# The files of an attempt

KEY = {"uid": "c0ffee", "trial_id": 1, "role": "main", "index": 0, "attempt": 1}
LAUNCH = {
    "key": KEY, "executable": {"type": "process", "argv": ["true"]}, "python": "/usr/bin/python3",
    "work": "/nowhere/work", "workdir": ".", "import_paths": [], "extra_paths": [], "root": "",
    "tree": None, "blobs": "/nowhere/blobs", "env": {}, "private": None, "secret_names": [],
    "volumes": [], "environment": None, "deadline": None, "server_file": "/nowhere/server.json",
}  # fmt: skip
# No process has this pid with this identity, so these files never cause a signal.
NOBODY = {"pid": 4_000_000, "identity": "never"}
STATE = {
    "stage": "running", "message": "", "supervisor": NOBODY, "process": NOBODY, "started": 1.0
}  # fmt: skip
EXIT = {
    "exit_code": 0, "signal": "", "reason": "", "message": "", "started": 1.0, "ended": 2.0
}  # fmt: skip
STOP = {"grace": 1.0, "reason": ""}


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def files_of_an_attempt() -> st.SearchStrategy[dict[str, bytes | None]]:
    """Each file is valid, invalid or missing."""
    return st.fixed_dictionaries(
        {
            name: st.just(encoded(value)) | anything_but(encoded(value)) | st.none()
            for name, value in {
                "launch.json": LAUNCH,
                "state.json": STATE,
                "exit.json": EXIT,
                "stop.json": STOP,
            }.items()
        }
    )


def test_the_files_of_an_attempt_may_hold_anything(chaos: Chaos, tmp_path: Path) -> None:
    """The attempt has a storable state, and a recorded end counts."""
    path = tmp_path / "1"
    path.mkdir()

    def check(files: dict[str, bytes | None]) -> None:
        attempt = Attempt("c0ffee", ReplicaId("main", 0, 1), path)  # new: it remembers its end
        for name in os.listdir(path):
            (path / name).unlink()
        for name, content in files.items():
            if content is not None:
                (path / name).write_bytes(content)
        attempt.is_of("c0ffee")
        attempt.supervisor()
        attempt.launch()
        seen = attempt.observe(is_starting=True)
        assert seen.phase.is_final is (files["exit.json"] is not None)
        storable(seen)
        attempt.stop(0)
        seen = attempt.observe(is_starting=False)
        storable(seen)
        assert seen.phase.is_final
        if files["exit.json"] == encoded(EXIT):
            assert (seen.phase, seen.exit_code) == (Phase.SUCCEEDED, 0)

    examine(chaos, check, files_of_an_attempt(), short=60)


def storable(replica: Replica) -> None:
    """Return whether the database returns the value unchanged."""
    data = msgspec.json.encode(replica)
    assert msgspec.json.decode(data, type=Replica) == replica
    assert replica.exit_code is None or abs(replica.exit_code) < 2**31


def test_reading_any_json_file_raises_no_unexpected_error(chaos: Chaos, tmp_path: Path) -> None:
    path = tmp_path / "file.json"

    def check(data: bytes) -> None:
        path.write_bytes(data)
        value = read_json(str(path))
        assert value is None or isinstance(value, dict)

    examine(chaos, check, anything_but(encoded(STATE)))


# Notifications

NUDGE: dict[str, Any] = {**KEY, "about": "state"}


def test_invalid_datagrams_do_not_stop_the_notification_listener(
    chaos: Chaos, tmp_path: Path
) -> None:
    """Any local writer may send arbitrary bytes to the socket. The next valid notification still
    arrives.
    """
    listener = NudgeListener(tmp_path)
    heard: list[str] = []
    listener.on_change(heard.append)
    speaker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:

        def check(data: bytes) -> None:
            heard.clear()
            speaker.sendto(data[:4096], listener.path)
            speaker.sendto(encoded(NUDGE), listener.path)
            eventually(lambda: "c0ffee" in heard, "the true nudge is received")
            for uid in heard:
                uid.encode()  # an id that the database accepts

        examine(chaos, check, anything_but(encoded(NUDGE)), short=100, long=3000)
    finally:
        speaker.close()
        listener.close()
