"""The program of a replica: it leaves marks, waits, and ends as its plan requires.

`python replica_program.py FOLDER JOB PLAN`, where the plan is JSON: for each replica a list of its
ends, `[exit code, seconds before it]`; the last entry repeats. `"last"` names a replica that ends
only when all others have ended; `"slow"` has the seconds that some replicas take to exit when they
are stopped.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time

_PATIENCE = 120.0


def main() -> int:
    """Run as one attempt of one replica of a job."""
    _stay_when_orphaned()
    folder, job, plan = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    replica = os.environ["WINDLASS_ROLE"] + "-" + os.environ["WINDLASS_INDEX"]
    attempt = os.environ["WINDLASS_ATTEMPT"]
    marks = os.path.join(folder, job + ".marks")
    place = os.open(os.path.join(folder, job + "." + replica), os.O_CREAT | os.O_RDWR)

    def mark(what: str) -> None:
        fd = os.open(marks, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, f"{replica} {attempt} {what}\n".encode())
        os.close(fd)

    def ends_of(name: str) -> list[str]:
        with open(marks) as file:
            records = [line.split() for line in file]
        return [record[3] for record in records if record[0] == name and record[2] == "ends"]

    def go(*_: object) -> None:
        time.sleep(plan["slow"].get(replica, 0))
        os._exit(143)

    signal.signal(signal.SIGTERM, go)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        mark("twice")  # another process of this replica is alive
        return 99
    mark("begins")
    ends = plan["ends"][replica]
    code, seconds = ends[min(len(ends_of(replica)), len(ends) - 1)]
    time.sleep(seconds)
    if plan.get("last") == replica:
        until = time.monotonic() + _PATIENCE
        while not all("0" in ends_of(name) for name in plan["ends"] if name != replica):
            assert time.monotonic() < until, "the others never ended"
            time.sleep(0.02)
    mark(f"ends {code}")
    if code > 128 and code - 128 in (signal.SIGKILL, signal.SIGTERM, signal.SIGABRT):
        os.kill(os.getpid(), code - 128)
    return int(code)


def _stay_when_orphaned() -> None:
    """Stay alive and do nothing after the supervisor died, until a cleanup ends this process.

    The kernel sends these two signals to a halted process whose supervisor died.
    """
    supervisor = os.getppid()

    def halt(*_: object) -> None:
        while os.getppid() != supervisor:
            time.sleep(3600)

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGCONT, halt)


if __name__ == "__main__":
    sys.exit(main())
