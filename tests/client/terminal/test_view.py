"""The output of a trial on the streams of a program."""

from __future__ import annotations

from pathlib import Path

from windlass.client.terminal.view import View
from windlass.model.logs import LogPart


def test_lines_of_both_streams_keep_their_order_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "output"
    streams = ["stdout", "stdout", "stderr", "stdout", "stderr"]
    parts = [LogPart(time=0.0, stream=name, text=str(n)) for n, name in enumerate(streams)]
    with path.open("a") as out, path.open("a", buffering=1) as err, View(out, err) as view:
        view.show_all(parts)
    assert path.read_text().split() == ["0", "1", "2", "3", "4"]
