"""Programs that send requests from several threads."""

from __future__ import annotations

from harness import Project

# Threads switch as often as possible, so that races become likely.
READ = """
import sys
import threading

from windlass.client.connection.transport import decode
from windlass.model.requests import TrialPage

sys.setswitchinterval(1e-6)
begin = threading.Barrier(8)
pages = []

def read():
    begin.wait()
    pages.append(decode(b'{"items": []}', TrialPage))

threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(pages))
"""


def test_many_threads_can_read_the_first_responses_at_once(project: Project) -> None:
    project.write("read.py", READ)
    for _ in range(6):
        done = project.python("read.py")
        assert (done.returncode, done.stdout) == (0, "8\n"), done.stderr
