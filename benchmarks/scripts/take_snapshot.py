"""One snapshot of a tree; what else a call asks git for its record is left out.

Usage: take_snapshot.py ROOT CACHE
"""

import sys
import time
from pathlib import Path

from windlass.packaging.project_files.project_root import find_root
from windlass.packaging.snapshot import take_snapshot

root = find_root(script=Path(sys.argv[1], "train.py"))
start = time.perf_counter()
snapshot = take_snapshot(root, Path(sys.argv[2]))
took = time.perf_counter() - start
if snapshot.files != 10_000:
    sys.exit(f"{snapshot.files} files are in the snapshot")
print("=", took, flush=True)
