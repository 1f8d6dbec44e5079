"""A tree packaged again and again. Usage: package_again.py ROOT"""

import sys
import time

import windlass as wl

script = wl.PythonScript(f"{sys.argv[1]}/train.py")
[first] = wl.package([script])
for _ in sys.stdin:
    start = time.perf_counter()
    [again] = wl.package([script])
    took = time.perf_counter() - start
    if again.tree != first.tree:
        sys.exit("the same tree has another hash")
    print("=", took, flush=True)
