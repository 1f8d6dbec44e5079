"""The warm launcher: a fork behaves like a new process and leaves nothing."""

from __future__ import annotations

import os
import signal
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from local_runtime import World, is_running

from windlass.model.job import Job


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home")
    yield world
    world.close()


def warm(world: World, **spec: Any) -> None:
    """Run trials until one runs in a fork."""

    def is_forked() -> bool:
        import psutil

        return any(word.endswith("launcher.py") for word in psutil.Process().cmdline())

    def is_warm() -> bool:
        job = world.call(is_forked, **spec)
        assert world.run(job).exit_code == 0
        return bool(world.value(job))

    world.eventually(is_warm, "a launcher is ready")


def launcher_of(world: World) -> psutil.Process:
    """Return the launcher that a warm trial is forked from, after that trial has ended."""

    def ancestors() -> tuple[int, int]:
        import psutil

        supervisor = psutil.Process().parent()
        return supervisor.pid, supervisor.ppid()

    supervisor, launcher = value_of(world, world.call(ancestors))
    world.eventually(lambda: not psutil.pid_exists(supervisor), "its supervisor has left")
    return psutil.Process(launcher)


def spare_of(world: World, launcher: psutil.Process) -> psutil.Process:
    """Return the spare supervisor of the launcher, with its process."""
    launchers: list[psutil.Process] = []

    def is_there() -> bool:
        launchers[:] = [process for process in launcher.children() if process.children()]
        return len(launchers) == 1

    world.eventually(is_there, "a supervisor waits")
    return launchers[0]


def value_of(world: World, job: Job) -> Any:
    assert world.run(job).exit_code == 0, "\n".join(t for _, t in world.lines(job))
    return world.value(job)


def test_a_fork_has_its_own_environment_and_nothing_of_another(world: World) -> None:
    def spoil() -> None:
        import fractions  # noqa: F401
        import os
        import signal
        import sys

        os.environ["SPOILED"] = "1"
        os.umask(0o777)
        os.chdir("/")
        sys.path.insert(0, "/spoiled")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def look(time_asked: float) -> dict[str, Any]:
        import logging
        import os
        import signal
        import sys
        import time

        return {
            "forked": any(
                "launcher.py" in w for w in open("/proc/self/cmdline").read().split("\0")
            ),
            "spoiled": "SPOILED" in os.environ or "/spoiled" in sys.path,
            "loaded": [n for n in ("fractions", "windlass", "windlass.worker") if n in sys.modules],
            "cwd": os.getcwd(),
            "umask": os.umask(0o22),
            "argv": sys.argv,
            "open": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],
            "term": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
            "int": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
            "pipe": signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN,
            "size": signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN,
            "young": logging.makeLogRecord({}).relativeCreated < 1000 * (time.time() - time_asked),
            "own": os.environ["OWN"],
            "leader": os.getsid(0) == os.getpid(),
            "stdin": os.read(0, 1),
        }

    warm(world)
    world.run(world.call(spoil))
    job = world.call(look, time.time(), env={"OWN": "mine"}, private={"umask": 0o27})
    assert value_of(world, job) == {
        "forked": True,
        "spoiled": False,
        "loaded": [],
        "cwd": str(world.path(job).parent / "work"),
        "umask": 0o27,
        "argv": ["f"],
        "open": [0, 1, 2],
        "term": True,
        "int": True,
        "pipe": True,
        "size": True,
        "young": True,
        "own": "mine",
        "leader": True,
        "stdin": b"",
    }


def test_a_fork_is_found_by_its_marker(world: World) -> None:
    def marker() -> str:
        import psutil

        return str(psutil.Process().environ()["WINDLASS_REPLICA"])

    warm(world)
    job = world.call(marker)
    assert value_of(world, job) == f"{job.uid}/main/0/1"


@pytest.mark.parametrize("end", ["it returns", "its supervisor is killed"])
def test_daemons_of_a_fork_end_with_it(world: World, tmp_path: Path, end: str) -> None:
    def daemonise(note: str, linger: bool) -> None:
        import os
        import time

        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 3)  # its output pipe is not held open
                with open(note + ".new", "w") as file:
                    file.write(str(os.getpid()))
                os.rename(note + ".new", note)
                while True:
                    time.sleep(0.05)
            os._exit(0)
        while not os.path.exists(note) or linger:
            time.sleep(0.01)

    warm(world)
    note, is_killed = tmp_path / "daemon", end == "its supervisor is killed"
    job = world.start(world.call(daemonise, str(note), is_killed))
    world.eventually(note.exists, "there is a daemon")
    if is_killed:
        os.kill(world.json(job, "state.json")["supervisor"]["pid"], signal.SIGKILL)
    assert world.end_of(job).exit_code == (None if is_killed else 0)
    assert not is_running(int(note.read_text()))


@pytest.mark.thorough
def test_children_of_a_fork_end_with_it(world: World) -> None:
    """The kernel shows a fork with the environment of its launcher, which is not a trial's own."""

    def leave() -> list[int]:
        import os
        import subprocess
        import time

        pids = [subprocess.Popen(["sleep", "600"]).pid]
        pids.append(subprocess.Popen(["sleep", "600"], start_new_session=True, env={}).pid)
        for leaves_session in (False, True):
            if (pid := os.fork()) == 0:
                if leaves_session:
                    os.setsid()
                time.sleep(600)
            pids.append(pid)
        return pids

    warm(world)
    left = value_of(world, world.call(leave))
    assert len(left) == 4
    assert not [pid for pid in left if is_running(pid)]


def test_a_fork_ends_like_a_program(world: World) -> None:
    def leave(how: str) -> None:
        import atexit
        import os
        import signal
        import sys
        import threading
        import time

        atexit.register(print, "at exit")
        threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
        print("last words", end="")
        if how == "text":
            sys.exit("enough")
        if how == "code":
            sys.exit(3)
        if how == "raise":
            raise ValueError("no")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)

    warm(world)
    outputs = {}
    codes = {}
    for how in ("", "text", "code", "raise", "kill"):
        job = world.call(leave, how)
        codes[how] = world.run(job).exit_code
        outputs[how] = [text for stream, text in world.lines(job) if stream == "stdout"]
    assert codes == {"": 0, "text": 1, "code": 3, "raise": 1, "kill": 137}
    assert outputs[""] == outputs["text"] == outputs["code"] == ["last wordsthread", "at exit"]


def test_a_fork_that_closed_its_output_has_not_failed(world: World) -> None:
    def leave(how: str) -> None:
        import sys

        if how == "closed":
            sys.stdout.close()
        if how == "none":
            sys.stdout = sys.stderr = None  # type: ignore[assignment]
        if how == "broken":
            sys.stdout = type("Broken", (), {"flush": lambda self: 1 / 0})()

    warm(world)
    codes = {
        how: world.run(world.call(leave, how)).exit_code for how in ("closed", "none", "broken")
    }
    assert codes == {"closed": 0, "none": 0, "broken": 120}


def test_open_files_of_a_fork_are_flushed(world: World) -> None:
    """A module of the project holds the file, so only the end of the process closes it."""
    files = {
        "job.py": """
            import ctypes
            import zipfile

            notes = open("notes.txt", "w")
            archive = zipfile.ZipFile("all.zip", "w")

            class Last:
                def __del__(self):
                    print("finalized")

            last = Last()

            def leave(code):
                notes.write("noted")
                archive.writestr("name", "text")
                ctypes.CDLL(None).puts(b"printed in C")
                raise SystemExit(code)
            """
    }
    env = {"PYTHONUNBUFFERED": ""}
    warm(world, env=env)
    for code in (0, 3):
        job = world.call(("job", "leave"), code, files=files, env=env)
        assert world.run(job).exit_code == code
        work = world.path(job).parent / "work"
        assert (work / "notes.txt").read_text() == "noted"
        assert zipfile.ZipFile(work / "all.zip").read("name") == b"text"
        texts = [text for stream, text in world.lines(job) if stream == "stdout"]
        assert texts == ["finalized", "printed in C"]


def test_modules_of_the_project_come_before_those_of_the_launcher(world: World) -> None:
    warm(world)
    files = {"ctypes.py": "OWN = True\n", "job.py": "import ctypes\ndef f(): return ctypes.OWN\n"}
    assert value_of(world, world.call(("job", "f"), files=files)) is True


@pytest.mark.thorough
def test_settings_that_python_reads_at_its_start_apply(world: World) -> None:
    def seed() -> tuple[int, int]:
        import sys

        return sys.flags.hash_randomization, hash("windlass")

    warm(world)
    warm(world, env={"PYTHONHASHSEED": "7"})
    first, second = (
        value_of(world, world.call(seed, env={"PYTHONHASHSEED": "7"})) for _ in range(2)
    )
    assert first == second
    assert value_of(world, world.call(seed, env={"PYTHONHASHSEED": "8"})) != first


def test_a_killed_launcher_is_replaced_and_nothing_is_lost(world: World) -> None:
    def launcher() -> int:
        import psutil

        return int(psutil.Process().parent().ppid())

    warm(world)
    pid = value_of(world, world.call(launcher))
    assert "launcher.py" in " ".join(psutil.Process(pid).cmdline())
    os.kill(pid, signal.SIGKILL)
    assert value_of(world, world.call(lambda: 5)) == 5
    warm(world)
    assert value_of(world, world.call(launcher)) != pid


@pytest.mark.thorough
def test_a_new_package_makes_a_new_launcher(world: World, tmp_path: Path) -> None:
    def launcher() -> int:
        import psutil

        return int(psutil.Process().parent().ppid())

    packages = tmp_path / "packages"
    packages.mkdir()
    env = {"PYTHONPATH": str(packages)}
    warm(world, env=env)
    pid = value_of(world, world.call(launcher, env=env))
    (packages / "fresh.pth").write_text("")
    warm(world, env=env)
    assert value_of(world, world.call(launcher, env=env)) != pid


def test_launchers_end_with_their_runtime(world: World) -> None:
    def launcher() -> int:
        import psutil

        return int(psutil.Process().parent().ppid())

    warm(world)
    process = psutil.Process(value_of(world, world.call(launcher)))
    world.runtime.close()
    process.wait(timeout=60)


def test_a_spare_supervisor_runs_the_next_trial(world: World) -> None:
    def family() -> tuple[int, int]:
        import os

        return os.getppid(), os.getpid()

    warm(world)
    spare = spare_of(world, launcher_of(world))
    (process,) = spare.children()
    assert value_of(world, world.call(family)) == (spare.pid, process.pid)


def test_a_spare_supervisor_also_runs_commands(world: World) -> None:
    warm(world)
    spare = spare_of(world, launcher_of(world))
    job = world.script("import os; print(os.getppid())")
    assert world.run(job).exit_code == 0
    assert ("stdout", str(spare.pid)) in world.lines(job)


@pytest.mark.parametrize("victim", ["supervisor", "process"])
@pytest.mark.thorough
def test_a_killed_spare_supervisor_costs_no_trial(world: World, victim: str) -> None:
    warm(world)
    launcher = launcher_of(world)
    spare = spare_of(world, launcher)
    (process,) = spare.children()
    dead = spare if victim == "supervisor" else process
    dead.kill()
    world.eventually(lambda: not is_running(dead.pid), "dead")
    for _ in range(2):
        assert value_of(world, world.call(lambda: 5)) == 5
    assert launcher.is_running()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it takes /proc")
@pytest.mark.thorough
def test_no_other_process_holds_the_pipe_to_a_spare_supervisor(world: World) -> None:
    """Otherwise an attempt could be sent to a killed one whose process still runs."""
    warm(world)
    launcher = launcher_of(world)
    spare = spare_of(world, launcher)
    (process,) = spare.children()
    assert _pipes(launcher) & _pipes(spare), "a pipe reports it"
    # The process closes the inherited pipes shortly after the fork.
    world.eventually(lambda: not _pipes(launcher) & _pipes(process), "closed in the process")


def _pipes(process: psutil.Process) -> set[str]:
    folder = f"/proc/{process.pid}/fd"
    links = [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]
    return {link for link in links if link.startswith("pipe:")}


@pytest.mark.thorough
def test_a_spare_supervisor_ends_with_its_launcher(world: World) -> None:
    warm(world)
    launcher = launcher_of(world)
    spare = spare_of(world, launcher)
    (process,) = spare.children()
    launcher.kill()
    for launched in (spare, process):
        launched.wait(timeout=60)


@pytest.mark.thorough
def test_an_unresponsive_launcher_is_bypassed(world: World) -> None:
    warm(world)
    launcher = launcher_of(world)
    launcher.suspend()
    assert value_of(world, world.call(lambda: 5)) == 5
    launcher.wait(timeout=60)
