"""`windlass server`: start, stop, status, logs."""

from __future__ import annotations

import json
import os

from cli.shells import Shell
from cli.terminals import CTRL_C
from windlass.version import __version__
from windlass.worker.common.process_identity import process_identity


def test_the_server_is_started_inspected_and_stopped(own_shell: Shell) -> None:
    shell = own_shell
    before = shell("server", "status")
    assert (before.returncode, before.stdout) == (1, "")
    assert f"No server is running for {shell.home}." in before.stderr
    assert shell.good("server", "stop") == "No server was running.\n"
    nothing = shell("server", "logs")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "There is no log yet" in nothing.stderr

    started = shell.good("server", "start")
    status = json.loads(shell.good("server", "status", "--json"))
    pid, url = status["pid"], status["url"]
    assert started == f"The server is started: {url} (pid {pid}).\n"
    assert shell.good("server", "start") == f"The server runs already: {url} (pid {pid}).\n"
    assert (status["running"], status["answering"]) == (True, True)
    assert (status["version"], status["home"]) == (__version__, str(shell.home))
    assert (status["trials_running"], status["trials_queued"]) == (0, 0)

    output = shell.good("server", "status")
    for text in (str(pid), url, __version__, str(shell.home), "0 running, 0 queued", "since "):
        assert text in output, text

    output = shell.good("server", "logs", "-n", "1")
    assert str(shell.home) in output
    assert json.loads(shell.good("server", "logs", "-n", "1", "--json"))["text"] + "\n" == output
    with shell.terminal("server", "logs", "-f", "-n", "1").closing() as follower:
        follower.until("serving")
        with (shell.home / "server.log").open("a") as log:
            log.write("one more\n")
        follower.until("one more").type(CTRL_C)
        assert follower.end() == 130

    assert shell.good("server", "stop") == (
        f"The server (pid {pid}) is stopped. Running trials continue.\n"
    )
    assert process_identity(pid) == ""
    after = shell("server", "status", "--json")
    assert after.returncode == 1
    assert json.loads(after.stdout)["running"] is False


def test_trials_continue_while_the_server_is_stopped(own_shell: Shell) -> None:
    shell = own_shell
    gate = shell.folder / "gate"
    shell.write("wait.py", f"""
        print("before", flush=True)
        print(open({str(gate)!r}).read())
    """)  # fmt: skip
    os.mkfifo(gate)
    trial_id = str(shell.submit("wait.py"))
    follower = shell.terminal("logs", "-f", trial_id).until("before")
    shell.good("server", "stop")
    gate.write_text("after")
    assert follower.end() == 0  # it connects to the next server
    assert follower.lines == ["before", "after"]
    assert shell.trial(trial_id).state.value == "SUCCEEDED"


def test_a_server_of_another_api_level_is_named_and_can_be_stopped(own_shell: Shell) -> None:
    shell = own_shell
    shell.good("server", "start")
    file = shell.home / "server.json"
    described = json.loads(file.read_text())
    file.write_text(json.dumps({**described, "version": "9.8.7", "api_level": 0}))

    done = shell("ls")
    assert done.returncode == 1
    assert "The server is Windlass 9.8.7" in done.stderr
    assert "windlass server stop" in done.stderr
    status = shell("server", "status")
    assert status.returncode == 1
    assert "9.8.7" in status.stdout
    assert "It does not answer" in status.stderr
    doctor = shell("doctor")
    assert doctor.returncode == 1
    assert "windlass server stop" in doctor.stdout

    assert f"pid {described['pid']}" in shell.good("server", "stop")
    assert process_identity(described["pid"]) == ""


def test_a_file_that_names_another_process_stops_nothing(own_shell: Shell) -> None:
    shell = own_shell
    shell.home.mkdir()
    someone = {"pid": os.getpid(), "identity": "1@2", "url": "http://127.0.0.1:9", "version": "0"}
    (shell.home / "server.json").write_text(json.dumps(someone))
    assert shell("server", "status").returncode == 1
    assert shell.good("server", "stop") == "No server was running.\n"


def test_another_configured_server_is_not_stopped(own_shell: Shell) -> None:
    done = own_shell("server", "stop", WINDLASS_SERVER="http://127.0.0.1:9", WINDLASS_TOKEN="t")
    assert done.returncode == 1
    assert "WINDLASS_SERVER names http://127.0.0.1:9" in done.stderr
    done = own_shell("server", "status", WINDLASS_SERVER="http://127.0.0.1:9", WINDLASS_TOKEN="t")
    assert done.returncode == 1
    assert "cannot be reached" in done.stderr
