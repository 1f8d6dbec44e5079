"""A hundred trials at once, until all values are there."""

import sys
import time

import windlass as wl

COUNT = 100


@wl.run
def square(number: int) -> int:
    return number**2


for _ in sys.stdin:
    start = time.perf_counter()
    values = list(square.map(range(COUNT)))
    took = time.perf_counter() - start
    if values != [number**2 for number in range(COUNT)]:
        sys.exit(f"wrong values: {values}")
    print("=", took, flush=True)
