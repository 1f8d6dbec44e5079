"""`windlass gc`."""

from __future__ import annotations

import shutil
import sys

import pytest

from cli.shells import Shell

PROGRAM = """
import windlass as wl

@wl.run(cpus=0.05)
def work(n):
    print("line", n)
    return n

if __name__ == "__main__":
    import sys
    for n in sys.argv[1:]:
        work(n)
"""


def run(shell: Shell, *numbers: str) -> None:
    done = shell.start(sys.executable, "work.py", *numbers)
    assert done.returncode == 0, done.stderr


@pytest.mark.finding("A7")
def test_trials_that_a_restored_older_database_does_not_know_keep_their_files(
    own_shell: Shell,
) -> None:
    own_shell.write("work.py", PROGRAM)
    run(own_shell, "1")
    own_shell.good("server", "stop")
    older = own_shell.home.with_name("older.db")
    newer = own_shell.home.with_name("newer.db")
    shutil.copy(own_shell.home / "windlass.db", older)
    run(own_shell, "2", "3")
    own_shell.good("server", "stop")
    (own_shell.home / "windlass.db").rename(newer)
    shutil.copy(older, own_shell.home / "windlass.db")

    completed = own_shell("gc", "--older-than", "0")
    assert completed.returncode == 0
    assert "does not know the trials of 2 folders" in completed.stdout
    assert "trials/2 " in completed.stdout and "trials/3 " in completed.stdout
    assert "windlass gc --set-aside" in completed.stderr
    own_shell.good("server", "stop")
    older.write_bytes((own_shell.home / "windlass.db").read_bytes())
    shutil.copy(newer, own_shell.home / "windlass.db")
    assert "line 3" in own_shell.good("logs", "3")
    assert own_shell.good("result", "3").strip() == "'3'"

    own_shell.good("server", "stop")
    shutil.copy(older, own_shell.home / "windlass.db")
    completed = own_shell("gc", "--set-aside")
    assert "They are now in" in completed.stdout
    assert sorted(path.name for path in own_shell.home.glob("set-aside/*/*")) == ["2", "3"]
    assert "does not know" not in own_shell.good("gc")
