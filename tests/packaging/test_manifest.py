from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.packaging.manifest import (
    Entry,
    encode_entry,
    encode_manifest,
    parse_manifest,
    tree_digest,
)

DIGEST = "ab" * 32

names = st.binary(min_size=1, max_size=12).map(
    lambda data: data.decode("utf-8", "surrogateescape").replace("/", "_").replace("\0", "_")
)
parts = names.filter(lambda name: name not in (".", ".."))
paths = st.lists(parts, min_size=1, max_size=4).map("/".join)
files = st.builds(
    Entry,
    paths,
    st.sampled_from("fx"),
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.integers(0, 10_000),
)


def is_a_tree(entries: list[Entry]) -> bool:
    entry_paths = [entry.path for entry in entries]
    return not any(
        one != two and two.startswith(one + "/") for one in entry_paths for two in entry_paths
    )


@given(st.lists(files, max_size=8, unique_by=lambda entry: entry.path).filter(is_a_tree))
def test_a_manifest_with_any_names_survives_a_round_trip(entries: list[Entry]) -> None:
    data = encode_manifest(entries)
    assert parse_manifest(data) == sorted(entries)
    assert json.loads(data)["version"] == 1
    for entry in entries:
        assert data.count(encode_entry(entry)) == 1


@given(st.lists(files, max_size=8, unique_by=lambda entry: entry.path), st.randoms())
def test_the_order_of_entries_does_not_matter(entries: list[Entry], random: object) -> None:
    shuffled = sorted(entries, key=lambda entry: hash((entry, id(random))))
    assert tree_digest(encode_manifest(entries)) == tree_digest(encode_manifest(shuffled))


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="manifest"):
        parse_manifest(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)
rows = st.lists(st.tuples(json_values, json_values, json_values, json_values), max_size=3)


@given(json_values | st.fixed_dictionaries({"files": json_values | rows, "version": st.just(1)}))
def test_random_json_raises_nothing_but_value_error(value: object) -> None:
    data = json.dumps(value, separators=(",", ":")).encode()
    try:
        parse_manifest(data)
    except ValueError:
        pass
    else:
        assert value == {"files": [], "version": 1}


@pytest.mark.parametrize("depth", [100_000])
def test_deep_nesting_is_a_value_error(depth: int) -> None:
    with pytest.raises(ValueError, match="manifest"):
        parse_manifest(b"[" * depth)


@pytest.mark.parametrize(
    "entry",
    [
        ["/a", "f", DIGEST, 0],
        ["../a", "f", DIGEST, 0],
        ["a/../b", "f", DIGEST, 0],
        ["a//b", "f", DIGEST, 0],
        ["a/", "f", DIGEST, 0],
        ["./a", "f", DIGEST, 0],
        ["a/.", "f", DIGEST, 0],
        ["", "f", DIGEST, 0],
        ["a\0b", "f", DIGEST, 0],
        ["\ud800", "f", DIGEST, 0],
        ["a" * 256, "f", DIGEST, 0],
        ["a", "d", DIGEST, 0],
        ["a", ["f"], DIGEST, 0],
        ["a", "f", "../x", 0],
        ["a", "f", DIGEST.upper(), 0],
        ["a", "f", DIGEST + "\n", 0],
        ["a", "f", DIGEST, -1],
        ["a", "f", DIGEST, 1.0],
        ["a", "f", DIGEST, True],
        ["a", "f", DIGEST, 10**12],
        ["a", "l", "/data/../etc", 0],
        ["a", "l", "//etc", 0],
        ["a", "l", "/etc/", 0],
        ["a", "l", "/e\0tc", 0],
        ["a", "l", "../b", 0],
        ["a/b", "l", "../../b", 0],
        ["a/b", "l", "c/../../../d", 0],
        ["z", "l", "a/b/c/../x", 0],  # a/b/c may be a link to the root
        ["a", "l", "", 0],
        ["a", "l", "b\0c", 0],
        ["a", "l", "b", 1],
        ["a", "f", DIGEST],
        "a",
    ],
)
def test_an_entry_that_is_not_plain_is_refused(entry: object) -> None:
    data = json.dumps({"files": [entry], "version": 1}, separators=(",", ":")).encode()
    with pytest.raises(ValueError, match="manifest"):
        parse_manifest(data)


def test_an_invalid_tree_is_refused() -> None:
    a, b, inside = ["a", "f", DIGEST, 1], ["b", "f", DIGEST, 1], ["a/b/c", "f", DIGEST, 1]
    for files in ([b, a], [a, a], [a, inside], [["a/b", "l", "c", 0], inside]):
        data = json.dumps({"files": files, "version": 1}, separators=(",", ":")).encode()
        with pytest.raises(ValueError, match=r"out of order|both a file and a folder"):
            parse_manifest(data)


def test_a_path_that_is_both_file_and_folder_is_refused_in_any_sort_order() -> None:
    entries = [Entry("a", "f", DIGEST, 0), Entry("a-", "f", DIGEST, 0), Entry("a/b", "l", "c", 0)]
    with pytest.raises(ValueError, match="both a file and a folder"):
        parse_manifest(encode_manifest(entries))


def test_only_the_canonical_form_is_accepted() -> None:
    entry = f'["a","f","{DIGEST}",1]'
    parse_manifest(f'{{"files":[{entry}],"version":1}}'.encode())
    for text in (
        f'{{"files": [{entry}],"version":1}}',
        f'{{"version":1,"files":[{entry}]}}',
        f'{{"files":[{entry}],"version":1,"version":1}}',
        f'{{"files":[{entry}],"version":1,"more":0}}',
        f'{{"files":[{entry}],"version":1}}\n',
        f'{{"files":[{entry}],"version":2}}',
        f'{{"files":[{entry}],"version":true}}',
        f'{{"files":[{entry.replace("a", chr(92) + "u0061", 1)}],"version":1}}',
    ):
        with pytest.raises(ValueError, match="manifest"):
            parse_manifest(text.encode())


def test_counts_and_sizes_are_limited() -> None:
    entries = [Entry(f"{index}", "f", DIGEST, 100) for index in range(5)]
    data = encode_manifest(entries)
    assert len(parse_manifest(data, max_files=5, max_size=500)) == 5
    with pytest.raises(ValueError, match="at most 4 are allowed"):
        parse_manifest(data, max_files=4)
    with pytest.raises(ValueError, match="at most 499 are allowed"):
        parse_manifest(data, max_size=499)


def test_links_that_leave_the_tree_only_in_combination_are_refused() -> None:
    """Each looks harmless alone: `up` is the root, and `out`, through `up`, is its parent."""
    up, out = Entry("a/b/up", "l", "../..", 0), Entry("out", "l", "a/b/up/../..", 0)
    parse_manifest(encode_manifest([up]))
    with pytest.raises(ValueError, match="leaves the tree"):
        parse_manifest(encode_manifest([up, out]))
