"""Five hundred jobs of one replica and fifty of four, submitted at once, until all have ended."""

import sys
import time

import windlass as wl

ONES, FOURS = 500, 50
SMALL = wl.Local(cpus=0.05)  # so that many run side by side

client = wl.Client()
for _ in sys.stdin:
    start = time.perf_counter()
    one = wl.Job(wl.Command(["true"]), executor=SMALL, name="one")
    four = wl.Job(wl.Command(["true"]), executor=SMALL, replicas=4, name="four")
    trials = [one.submit() for _ in range(ONES)] + [four.submit() for _ in range(FOURS)]
    accepted = time.perf_counter() - start
    for trial in trials:
        trial.wait()
    took = time.perf_counter() - start
    wrong = [trial for trial in trials if trial.state != "SUCCEEDED"]
    if wrong:
        sys.exit(f"{len(wrong)} did not succeed, the first: {wrong[0]}: {wrong[0].message}")
    info = client.server_info()
    print(
        f'= {{"took": {took}, "accepted": {accepted}, "looks": {info.reconciles},'
        f' "p50": {info.reconcile_p50}, "p99": {info.reconcile_p99}}}',
        flush=True,
    )
