"""Files of calls that no Windlass client would write."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.worker.program.call_file import large_values

BEGIN = b'{"files":['


@pytest.mark.parametrize(
    "content",
    [
        BEGIN,
        BEGIN + b"\xff\x00",
        BEGIN + b"[" * 100_000,
        BEGIN + b"null]}",
        BEGIN + b'["0","f"]]}',
        BEGIN + b'["0","f",7,3]]}',
        BEGIN + b'["0","f","../../token",3]]}',
        BEGIN + b'["0","f","' + b"a" * 64 + b'","3"]]}',
    ],
    ids=["cut", "bytes", "deep", "null", "short", "number", "path", "size"],
)
def test_an_invalid_list_of_large_values_is_a_value_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "call"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="the list of its large values is invalid"):
        large_values(str(path))
