"""`tools/check_prose.py` finds sentences that are hard to read, in Python and in Markdown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "check_prose.py"
PLAIN = "A trial is a recorded run. The server stores the trial.\n"


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TOOL, folder], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docstring.py", '"""What the server reads."""'),
        ("comment.py", "# from what is given\n"),
        ("message.py", 'raise ValueError(f"{3!r} is no number of CPUs")'),
        ("page.md", "The server is told of the end."),
        ("sentence.md", "Of all trials the newest counts."),
        ("verb.md", "The server keeps what is left."),
    ],
)
def test_a_phrase_that_breaks_a_rule_is_reported_with_its_position(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(f"{text}\n" * 2)  # one phrase alone is below the limit
    done = check(tmp_path)
    assert done.returncode == 1, done.stdout
    assert f"{name}:1: " in done.stdout
    assert "The limit is" in done.stdout


def test_plain_text_passes_with_a_count_for_each_folder(tmp_path: Path) -> None:
    (tmp_path / "plain.md").write_text(PLAIN * 100)
    (tmp_path / "code.md").write_text("```text\nWhat is told.\n```\n")
    (tmp_path / "question.py").write_text('"""Answer a question: what is a trial?"""\n')
    done = check(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{tmp_path} 0.00" in done.stdout
