"""One checkpoint of a folder, as a trial of a home saves it; all of it is on the disk after it.

Usage: save_checkpoint.py FOLDER HOME
"""

import os
import sys
import time
from pathlib import Path

import windlass as wl

home = Path(sys.argv[2])
os.environ |= {
    "WINDLASS_TRIAL_ID": "1",
    "WINDLASS_RANK": "0",
    "WINDLASS_CHECKPOINTS": str(home / "trials" / "1" / "checkpoints"),
}
save = wl.save_checkpoint  # loaded before it is timed
start = time.perf_counter()
save(sys.argv[1], step=1)
print("=", time.perf_counter() - start, flush=True)
