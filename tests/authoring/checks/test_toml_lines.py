"""Line numbers of keys in TOML documents, for every key that the parser finds."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from windlass.authoring.checks.toml_lines import Keys, key_lines, loads

DOCUMENT = '''
title = "a # no comment"      # 2
"quoted \\u0041.b" = 1          # 3
'literal key' = [ # 4
    1, # 5
    { inner = "]", deep = { er = 2 } }, # 6
]
text = """ # 8
[not.a.table]
key = 1 \\""" still
""""
literal = \'\'\'
x = 2''\'\'\'
 spaced . "dotted" . key = { a.b = 1, c = [1, [2]] } # 14
spaced.other = 1979-05-27T07:32:00Z

  [ roles . "chief" ] # 17
args = { lr = 0.1,    tag = [ # 18
   "a", 'b]' # 19
 ] } # 20
[roles.worker]#21
replicas=2#22
[[more]]
a = 1 # 24
[more.sub]
b = 2 # 26
[[more]]
[[more.deeper]] # 28
c = [] # 29
[roles] # 30: after its tables
'''


def paths_of(value: Any, at: Keys = ()) -> set[Keys]:
    """Every path of keys in a document as the parser sees it."""
    inner = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        inner = ((str(index), element) for index, element in enumerate(value))
    paths = {at} if at else set()
    return paths.union(*(paths_of(child, (*at, name)) for name, child in inner), set())


def test_every_key_of_a_document_has_its_line() -> None:
    lines = key_lines(DOCUMENT)
    assert set(lines) == paths_of(loads(DOCUMENT))
    for keys, line in {
        ("title",): 2,
        ("quoted A.b",): 3,
        ("literal key",): 4,
        ("literal key", "0"): 5,
        ("literal key", "1", "inner"): 6,
        ("literal key", "1", "deep", "er"): 6,
        ("text",): 8,
        ("literal",): 12,
        ("spaced", "dotted", "key", "a", "b"): 14,
        ("spaced", "other"): 15,
        ("roles", "chief"): 17,
        ("roles", "chief", "args", "tag"): 18,
        ("roles", "chief", "args", "tag", "1"): 19,
        ("roles", "worker"): 21,
        ("roles", "worker", "replicas"): 22,
        ("more", "0", "a"): 24,
        ("more", "0", "sub"): 25,
        ("more", "0", "sub", "b"): 26,
        ("more", "1"): 27,
        ("more", "1", "deeper", "0"): 28,
        ("more", "1", "deeper", "0", "c"): 29,
        ("roles",): 30,
    }.items():
        assert lines[keys] == line, keys


def test_windows_line_breaks_count_once() -> None:
    text = 'a = 1\r\nb = """x\r\ny"""\r\n[c]\r\nd = 2\r\n'
    assert key_lines(text) == {("a",): 1, ("b",): 2, ("c",): 4, ("c", "d"): 5}


KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=6)
PLAIN = st.one_of(st.integers(0, 99), st.booleans(), KEYS)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=4), max_size=4))
def test_all_kinds_of_documents_have_the_lines_that_the_parser_sees(
    data: dict[str, dict[str, Any]],
) -> None:
    text, expected = "", {}
    for table, entries in data.items():
        text += f"[{quoted(table)}] # ]\n"
        expected[(table,)] = text.count("\n")
        for key, value in entries.items():
            text += f"{quoted(key)} = {inline(value)} # = 3\n\n"
            expected[(table, key)] = text.count("\n") - 1
    assert paths_of(loads(text)) == set(key_lines(text))
    assert expected.items() <= key_lines(text).items()


def quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(k)}={inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    return quoted(value)
