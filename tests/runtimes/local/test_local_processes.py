"""Processes under the local runtime: their ends, their stops, and their leftovers."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_runtime import FIRST, World, is_running

from windlass.model.job import Assignment, Code, Python, Volume
from windlass.model.status import Phase, ReplicaId


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home")
    yield world
    world.close()


def test_an_exit_code_is_reported_unchanged(world: World) -> None:
    ended = world.run(world.script("raise SystemExit(7)"))
    assert (ended.phase, ended.exit_code, ended.reason) == (Phase.FAILED, 7, "")
    assert ended.started is not None and ended.ended is not None and ended.node
    ended = world.run(world.script("pass"))
    assert (ended.phase, ended.exit_code, ended.reason) == (Phase.SUCCEEDED, 0, "")


@pytest.mark.finding("U4")
def test_a_trial_fails_with_the_cause_if_no_interpreter_can_start_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = str(tmp_path / "gone/python")
    monkeypatch.setattr(sys, "_base_executable", gone)
    monkeypatch.setattr(sys, "executable", gone)
    world = World(tmp_path / "home", start_patience=0.05)
    try:
        job = world.command("true", python=Python(executable=gone))
        with pytest.raises(FileNotFoundError, match="interpreter was moved or deleted"):
            world.start(job)
        assert not world.runtime.list(job), "it is tried again"
        time.sleep(0.1)
        world.start(job)
        [ended] = world.runtime.list(job)
        assert (ended.phase, ended.reason) == (Phase.FAILED, "StartFailed")
        assert gone in ended.message and "windlass server stop" in ended.message
    finally:
        world.close()


def test_a_death_by_signal_is_reported_with_its_name(world: World) -> None:
    job = world.script("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    ended = world.run(job)
    assert (ended.exit_code, ended.reason) == (139, "Signal")
    assert world.json(job, "exit.json")["signal"] == "SIGSEGV"


def test_stdout_and_stderr_are_distinguished(world: World) -> None:
    job = world.script(
        """
        import sys
        print("out")
        print("err", file=sys.stderr)
        """
    )
    world.run(job)
    assert sorted(world.lines(job)) == [("stderr", "err"), ("stdout", "out")]


def test_an_incomplete_line_is_shown_while_it_grows(world: World) -> None:
    job = world.start(
        world.script(
            r"""
            import sys
            sys.stdout.write("10%\r")
            sys.stdout.flush()
            import os, time
            while not os.path.exists("go"):
                time.sleep(0.01)
            sys.stdout.write("20%\rdone\n")
            """
        )
    )
    world.wait_for_text(job, "10%\r")
    assert world.path(job, "log").read_bytes().endswith(b"\x1dO 10%\r\n")
    (world.path(job).parent / "work" / "go").touch()
    world.end_of(job)
    assert world.lines(job) == [("stdout", "10%\r20%\rdone")]


def test_binary_output_and_very_long_lines_are_kept(world: World) -> None:
    job = world.script(
        r"""
        import os
        os.write(1, b"\xff\xfe\x00\x1b[0m\n" + b"x" * 5_000_000 + b"\nend\n")
        """
    )
    world.run(job)
    log = world.path(job, "log").read_bytes()
    assert b":o \xff\xfe\x00\x1b[0m\n" in log
    assert log.count(b"x") == 5_000_000
    assert max(map(len, log.split(b"\n"))) <= 64 * 1024 + 20
    assert world.lines(job)[-1] == ("stdout", "end")


@pytest.mark.thorough
def test_large_output_is_complete_and_in_order(world: World) -> None:
    job = world.script("for i in range(200_000): print(i)", env={"PYTHONUNBUFFERED": ""})
    world.run(job)
    assert [text for _, text in world.lines(job)] == [str(i) for i in range(200_000)]


def test_a_process_that_closes_its_output_runs_on(world: World) -> None:
    job = world.start(
        world.script(
            """
            import os, time
            os.close(1)
            os.close(2)
            while not os.path.exists("go"):
                time.sleep(0.01)
            raise SystemExit(3)
            """
        )
    )
    world.wait(job, lambda seen: seen.phase is Phase.RUNNING, "it runs")
    (world.path(job).parent / "work" / "go").touch()
    assert world.end_of(job).exit_code == 3


def test_a_stopped_process_can_finish_within_its_grace_period(world: World) -> None:
    job = world.start(
        world.script(
            """
            import signal, sys, time
            def leave(*_):
                print("leaving")
                sys.exit(0)
            signal.signal(signal.SIGTERM, leave)
            print("ready")
            while True:
                time.sleep(0.05)
            """
        )
    )
    world.wait_for_text(job, "ready")
    world.runtime.delete(job, FIRST, 30)
    world.runtime.delete(job, FIRST, 30)
    ended = world.end_of(job)
    assert (ended.exit_code, ended.reason) == (0, "Stopped")
    assert ("stdout", "leaving") in world.lines(job)
    world.runtime.delete(job, FIRST, 30)  # no effect after its end
    assert world.end_of(job) == ended


def test_a_process_that_ignores_sigterm_is_killed_after_its_grace_period(world: World) -> None:
    job = world.start(
        world.script(
            """
            import signal, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("ready")
            while True:
                time.sleep(0.05)
            """
        )
    )
    world.wait_for_text(job, "ready")
    world.runtime.delete(job, FIRST, 0.2)
    ended = world.end_of(job)
    assert (ended.exit_code, ended.reason) == (137, "Stopped")


def test_a_second_stop_may_shorten_the_grace_period(world: World) -> None:
    job = world.start(
        world.script(
            """
            import signal, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("ready")
            while True:
                time.sleep(0.05)
            """
        )
    )
    world.wait_for_text(job, "ready")
    world.runtime.delete(job, FIRST, 3600)
    stopping = world.wait(job, lambda seen: seen.deleting, "it is asked to stop")
    assert stopping.phase is Phase.RUNNING
    world.runtime.delete(job, FIRST, 0)
    assert world.end_of(job).reason == "Stopped"


DAEMON = """
    import os, signal, subprocess, sys, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            with open("daemon.new", "w") as file:
                file.write(str(os.getpid()))
            os.rename("daemon.new", "daemon")
            while True:
                time.sleep(0.05)
        os._exit(0)
    os.wait()
    while not os.path.exists("daemon"):
        time.sleep(0.01)
"""


def test_daemons_do_not_outlive_the_process(world: World) -> None:
    job = world.script(DAEMON)
    assert world.run(job).exit_code == 0
    daemon = int((world.path(job).parent / "work" / "daemon").read_text())
    assert not is_running(daemon)


def test_a_stop_also_ends_daemons(world: World) -> None:
    job = world.start(world.script(DAEMON + "    print('ready')\n    time.sleep(3600)\n"))
    world.wait_for_text(job, "ready")
    world.runtime.delete(job, FIRST, 0.1)
    assert world.end_of(job).reason == "Stopped"
    daemon = int((world.path(job).parent / "work" / "daemon").read_text())
    assert not is_running(daemon)


def test_a_killed_supervisor_ends_its_process(world: World) -> None:
    job = world.start(world.script(DAEMON + "    print('ready')\n    time.sleep(3600)\n"))
    world.wait_for_text(job, "ready")
    state = world.json(job, "state.json")
    os.kill(state["supervisor"]["pid"], signal.SIGKILL)
    ended = world.end_of(job)
    assert (ended.phase, ended.exit_code, ended.reason) == (Phase.FAILED, None, "Lost")
    assert "supervisor died" in ended.message
    daemon = int((world.path(job).parent / "work" / "daemon").read_text())
    assert not is_running(state["process"]["pid"])
    assert not is_running(daemon)
    assert world.json(job, "exit.json")["reason"] == "Lost"


def test_stopping_an_attempt_with_a_killed_supervisor_ends_its_process(world: World) -> None:
    job = world.start(world.script(DAEMON + "    print('ready')\n    time.sleep(3600)\n"))
    world.wait_for_text(job, "ready")
    state = world.json(job, "state.json")
    os.kill(state["supervisor"]["pid"], signal.SIGKILL)
    world.eventually(lambda: not is_running(state["supervisor"]["pid"]), "it is dead")
    world.runtime.delete(job, FIRST, 5)
    daemon = int((world.path(job).parent / "work" / "daemon").read_text())
    assert not is_running(daemon)
    assert world.end_of(job).reason in ("Stopped", "Lost")


def test_creating_twice_runs_once(world: World) -> None:
    job = world.script("open('ran', 'a').write('x')")
    for _ in range(3):
        world.start(job)
    world.end_of(job)
    world.start(job)
    assert (world.path(job).parent / "work" / "ran").read_text() == "x"


def test_a_missing_program_is_a_failure_to_start(world: World) -> None:
    ended = world.run(world.command("no-such-program"))
    assert (ended.exit_code, ended.reason) == (127, "StartFailed")
    assert "no-such-program" in ended.message
    ended = world.run(world.command("./train.sh", files={"train.sh": "echo hi"}))
    assert (ended.exit_code, ended.reason) == (126, "StartFailed")
    ended = world.run(world.command("x" * 100_000))  # tables show this message
    assert (ended.exit_code, len(ended.message)) == (127, 1000)


def test_a_retry_finds_the_files_of_the_previous_attempt(world: World) -> None:
    script = "import os; print(os.path.exists('kept')); open('kept', 'w'); open('a.txt', 'w')"
    job = world.script(script, files={"a.txt": "original", "b.txt": "unchanged"})
    world.run(job)
    work = world.path(job).parent / "work"
    second = ReplicaId("main", 0, 2)
    assert world.run(job, second).exit_code == 0
    assert world.lines(job, second) == [("stdout", "True")]
    assert [replica.id.attempt for replica in world.runtime.list(job)] == [1, 2]
    # Unchanged files of the snapshot are deleted once everything is recorded.
    world.eventually(lambda: sorted(os.listdir(work)) == ["a.txt", "kept"], "it is tidied")


def test_volumes_are_links_in_the_working_directory(world: World, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.csv").write_text("1,2,3")
    volume = Volume(target="in/data", source=str(data))
    job = world.script(
        "print(open('in/data/train.csv').read())",
        volumes=(volume,),
        code=Code(workdir="sub"),
    )
    assert world.run(job).exit_code == 0
    assert world.lines(job) == [("stdout", "1,2,3")]
    assert (data / "train.csv").exists()


def test_the_environment_is_that_of_the_author_and_not_of_the_server(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_SERVER", "1")
    script = "import json, os; print(json.dumps(dict(os.environ)))"
    private = {"environ": {"PATH": "/usr/bin:/bin", "MINE": "1", "PYTHONPATH": "/author"}}
    job = world.script(script, private=private, env={"MINE": "2"}, code=Code(import_paths=("src",)))
    world.run(job)
    environ = __import__("json").loads(world.lines(job)[0][1])
    work = str(world.path(job).parent / "work")
    assert "OF_THE_SERVER" not in environ
    assert environ["MINE"] == "2"
    assert environ["PYTHONPATH"].endswith(f"/worker/startup:{work}/src:/author")
    assert environ["WINDLASS_TRIAL_ID"] == str(job.trial_id)
    assert environ["WINDLASS_REPLICA"] == f"{job.uid}/main/0/1"
    assert environ["WINDLASS_HOME"] == str(world.home)
    assert environ["PATH"].endswith(":/usr/bin:/bin")
    job = world.script(script)
    world.run(job)
    environ = __import__("json").loads(world.lines(job)[0][1])
    assert "OF_THE_SERVER" not in environ
    assert environ["HOME"] == os.environ["HOME"]


def test_secrets_reach_the_process_and_are_masked_in_its_log(world: World) -> None:
    job = world.script(
        """
        import os, sys, time
        secret = os.environ["KEY"]
        sys.stdout.write("one " + secret[:5])
        sys.stdout.flush()
        time.sleep(0.1)
        sys.stdout.write(secret[5:] + " two\\n")
        print(os.environ["PEM"].splitlines()[1], len(secret), file=sys.stderr)
        """,
        private={"secrets": {"KEY": "s3cr3t-t0k3n", "PEM": "-----BEGIN-----\nAAAABBBB"}},
        secret_names=("KEY", "PEM"),
    )
    world.run(job)
    assert sorted(world.lines(job)) == [("stderr", "*** 12"), ("stdout", "one *** two")]
    files = world.path(job).parent.parent.rglob("*")
    assert not [path for path in files if path.is_file() and b"s3cr3t" in path.read_bytes()]


def test_notifications_report_log_lines_and_changes(world: World) -> None:
    job = world.start(world.script("print('hello', flush=True); input()"))
    world.end_of(job)
    world.eventually(lambda: job.trial_id in world.grown, "the log was reported")
    world.eventually(lambda: job.uid in world.changes, "the end was reported")


@pytest.mark.parametrize("name", ["with space and ünïcode-日本", "long" + "x" * 120])
def test_homes_with_any_name_work(tmp_path: Path, name: str) -> None:
    world = World(tmp_path / name / "home")
    try:
        assert len(os.fsencode(world.runtime.nudges.path)) < 104
        job = world.script("import mod; print(mod.x)", files={"mod.py": "x = 5"})
        assert world.run(job).exit_code == 0
        assert world.lines(job) == [("stdout", "5")]
    finally:
        world.close()
    assert not os.path.exists(world.runtime.nudges.path)


def test_a_process_sees_only_its_assigned_devices(tmp_path: Path) -> None:
    world = World(tmp_path / "home", has_devices=True)
    try:
        script = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))"
        job = world.script(script)
        world.runtime.create(job, FIRST, Assignment(devices=(1, 3)))
        world.end_of(job)
        assert world.lines(job) == [("stdout", "1,3")]
        job = world.script(script)
        world.run(job)
        assert world.lines(job) == [("stdout", "")]
    finally:
        world.close()


def test_a_server_started_by_a_trial_is_not_cleaned_up_with_it(world: World) -> None:
    job = world.script(
        """
        import os, subprocess, sys
        environ = {**os.environ, "WINDLASS_DETACHED": "1"}
        server = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(3600)"],
            env=environ, start_new_session=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        print(server.pid)
        """
    )
    assert world.run(job).exit_code == 0
    [(_, pid)] = world.lines(job)
    assert is_running(int(pid))
    os.kill(int(pid), signal.SIGKILL)
