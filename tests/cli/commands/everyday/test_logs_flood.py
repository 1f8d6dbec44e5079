"""Following a program that prints faster than the reader reads."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from cli.shells import WINDLASS, Shell
from cli.terminals import PATIENCE
from job_requests import role

LINES = 500_000
WIDTH = 200
FLOOD = f"""
for first in range(0, {LINES}, 1000):
    sys.stdout.write("".join(f"{{n}} {"x" * WIDTH}\\n" for n in range(first, first + 1000)))
"""
ROOM = 32 << 10  # kilobytes; the log is three times as large, and its pages more


def test_following_a_flood_through_a_pipe_loses_nothing(shell: Shell) -> None:
    """A slow follower does not make the command or the server buffer unread lines."""
    job = shell.submit_roles(role(FLOOD))
    follower = subprocess.Popen(
        [WINDLASS, "logs", "-f", str(job.id)],
        cwd=shell.folder,
        env=shell.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        assert follower.stdout is not None
        assert follower.stdout.readline().startswith(b"0 ")
        server = shell.json("server", "status")["pid"]
        before = {pid: peak_memory(pid) for pid in (server, follower.pid)}
        # The test reads nothing until the program has written everything, so the follower is far
        # behind.
        assert job.wait(PATIENCE).state == "SUCCEEDED"
        for n, line in enumerate(follower.stdout, 1):
            assert line == b"%d %s\n" % (n, b"x" * WIDTH)
            if n == LINES - 10_000:  # more than the pipe holds: the follower still runs
                after = {pid: peak_memory(pid) for pid in before}
        assert n == LINES - 1
        assert follower.wait(PATIENCE) == 0
    finally:
        follower.kill()
        follower.wait()
    for pid, peak in after.items():
        whose = "the server" if pid == server else "the follower"
        assert peak - before[pid] < ROOM, f"{whose} grew to {peak} kB from {before[pid]} kB"


def peak_memory(pid: int) -> int:
    """Return the peak memory of a process in kilobytes."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1])
