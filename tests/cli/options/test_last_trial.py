"""`last` in place of a trial id."""

from __future__ import annotations

import pytest

from cli.shells import Shell


@pytest.fixture(scope="module", autouse=True)
def trials(module_shell: Shell) -> None:
    """Two trials, of which the second prints and reports."""
    module_shell.write("second.py", "import windlass as wl; wl.report(loss=1); print('second')")
    module_shell.good("run", "--", "echo", "first")
    module_shell.good("run", "second.py")


def test_last_is_the_newest_trial(module_shell: Shell) -> None:
    assert module_shell.good("logs", "last") == "second\n"
    assert module_shell.good("logs", "last~1") == "first\n"
    assert module_shell.good("show", "last").startswith("Trial 2 ")
    assert module_shell.good("metrics", "last", "loss").startswith("0\t1\t")
    assert "name        echo → second" in module_shell.good("diff", "last~1", "last")
    assert module_shell.good("code", "last", "--to", "copy") == ""
    assert module_shell.good("edit", "last", "--label", "new") != ""
    assert module_shell.newest().labels == ("new",)


def test_errors(module_shell: Shell) -> None:
    assert "'last~5' names no trial: there are 2 trials." in module_shell("show", "last~5").stderr
    assert "or last for the newest trial" in module_shell("show", "latest").stderr


def test_completion(module_shell: Shell) -> None:
    assert module_shell.complete("windlass show ") == ["2", "1", "last"]
    assert module_shell.complete("windlass diff la") == ["last"]
    assert module_shell.complete("windlass metrics last l") == ["loss"]
    assert module_shell.complete("windlass logs last --role ") == ["main"]


def test_without_trials(own_shell: Shell) -> None:
    assert own_shell.complete("windlass show l") == []  # and starts no server
    assert not (own_shell.home / "server.json").exists()
    assert "'last' names no trial: there is no trial." in own_shell("logs", "last").stderr
