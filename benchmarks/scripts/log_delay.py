"""A trial that writes lines with their time of writing, and a client that follows them."""

import json
import sys
import time

import windlass as wl

LINES = 220
FIRST = 20  # until the follower is there, lines wait for it


@wl.run
def chatter(lines: int) -> None:
    for _ in range(lines):
        print(time.time(), flush=True)
        time.sleep(0.01)  # each line is to be a batch of its own


for _ in sys.stdin:
    trial = chatter.submit(LINES)
    delays = [time.time() - float(line) for line in trial.logs(follow=True)]
    print("=", json.dumps(delays[FIRST:]), flush=True)
