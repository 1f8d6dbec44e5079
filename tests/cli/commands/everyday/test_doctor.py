"""`windlass doctor`."""

from __future__ import annotations

import os
import signal

import pytest

from cli.shells import Shell
from cli.terminals import eventually
from windlass.worker.common.process_identity import process_identity


def levels(shell: Shell, **env: str) -> dict[str, str]:
    """Return the checks and their levels."""
    return {finding["check"]: finding["level"] for finding in shell.json("doctor", **env)}


def test_a_new_home_passes_all_checks(own_shell: Shell) -> None:
    output = own_shell.good("doctor")
    assert "not running; the first command that needs it starts it" in output
    assert "created when it is first needed" in output
    assert set(levels(own_shell)) == {
        "Python", "home", "disk", "server", "machine", "accelerators", "uv", "git",
    }  # fmt: skip
    assert not own_shell.home.exists()


def test_a_home_that_others_can_read_is_a_warning_with_a_remedy(own_shell: Shell) -> None:
    own_shell.home.mkdir()
    own_shell.home.chmod(0o755)
    output = own_shell.good("doctor")
    assert f"chmod go-rwx {own_shell.home}" in output
    assert levels(own_shell)["home"] == "warning"


def test_a_home_that_is_not_a_folder_is_an_error(own_shell: Shell) -> None:
    own_shell.home.write_text("a file")
    done = own_shell("doctor")
    assert done.returncode == 1
    assert "it is not a directory" in done.stdout
    assert "Set WINDLASS_HOME" in done.stdout
    own_shell.home.unlink()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_home_without_write_permission_is_an_error(own_shell: Shell) -> None:
    own_shell.home.mkdir(mode=0o500)
    done = own_shell("doctor")
    assert done.returncode == 1
    assert "it cannot be written to" in done.stdout
    own_shell.home.chmod(0o700)


def test_a_running_server_passes_and_a_killed_server_is_detected(
    own_shell: Shell,
) -> None:
    own_shell.good("server", "start")
    output = own_shell.good("doctor")
    assert "answers (pid" in output
    assert "16 CPUs, 64.0 GB of memory" in output
    assert "a100, a100" in output
    assert set(levels(own_shell).values()) == {"ok"}

    pid = own_shell.json("server", "status")["pid"]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: process_identity(pid) == "", "the server is gone")
    output = own_shell.good("doctor")
    assert f"it was pid {pid}" in output
    assert levels(own_shell)["server"] == "warning"
    assert own_shell.good("server", "stop") == "No server was running.\n"


def test_an_unreachable_configured_server_is_an_error(own_shell: Shell) -> None:
    done = own_shell("doctor", WINDLASS_SERVER="http://127.0.0.1:9", WINDLASS_TOKEN="t")
    assert done.returncode == 1
    assert "http://127.0.0.1:9 cannot be reached" in done.stdout


def test_missing_tools_are_named(own_shell: Shell) -> None:
    assert levels(own_shell, PATH="/nonexistent")["git"] == "warning"
    output = own_shell.good("doctor", PATH="/nonexistent")
    assert "Install git" in output


def test_marks_are_plain_where_unicode_cannot_be_printed(own_shell: Shell) -> None:
    assert own_shell.good("doctor", PYTHONIOENCODING="ascii").startswith("ok Python")


@pytest.mark.finding("A11")
def test_all_contents_are_verified_on_request(own_shell: Shell) -> None:
    own_shell.write("code.py", "print('code')")
    own_shell.good("run", "code.py")
    blobs = sorted((own_shell.home / "blobs").glob("??/*"))
    assert f"{len(blobs)} contents verified" in own_shell.good("doctor", "--contents")
    damaged = blobs[0]
    damaged.write_bytes(bytes(damaged.stat().st_size))
    checked = own_shell("doctor", "--contents")
    assert checked.returncode == 1
    text = " ".join(checked.stdout.split())
    assert f"1 of {len(blobs)} contents were damaged and set aside: {damaged.name}" in text
    assert not damaged.exists()
    assert f"{len(blobs) - 1} contents verified" in own_shell.good("doctor", "--contents")
