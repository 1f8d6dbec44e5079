"""A hundred bare interpreters at once, until all have ended; nothing is sent or recorded."""

import subprocess
import sys
import time

COUNT = 100

for _ in sys.stdin:
    start = time.perf_counter()
    processes = [subprocess.Popen([sys.executable, "-c", "pass"]) for _ in range(COUNT)]
    for process in processes:
        process.wait()
    print("=", time.perf_counter() - start, flush=True)
