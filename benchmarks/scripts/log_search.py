"""1 GB of logs over 100 trials, searched through the API and by grep on the very same files."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import windlass as wl
from windlass.worker.logs.segment import STDOUT, encode_lines

TRIALS = 100
SIZE = 10_000_000  # bytes of the log of each
PLAIN = ["CUDA out of memory", "nan"]
EXPRESSIONS = ["loss=(nan|inf)", "[A-Z][a-z]+Error", "(nan|NaN|inf)$"]
HOME = Path(os.environ["WINDLASS_HOME"])


@wl.run
def begin(number: int) -> int:
    return number


def fill(path: Path, seed: int) -> None:
    """A log of a training run, in the form in which supervisors write it."""
    chance = random.Random(seed)
    words = ("epoch", "batch", "gpu", "memory", "saved", "checkpoint", "validation", "gradient")
    lines = [
        f"step {chance.randrange(10**6)} loss={chance.random() * 3:.4f} "
        f"{' '.join(chance.choices(words, k=5))} throughput {chance.randrange(10**5)} samples/s"
        for _ in range(2000)
    ]
    texts = "\n".join([*lines, ""]).encode()
    rare = b"RuntimeError: CUDA out of memory. Tried to allocate 20 MiB\n"
    moment = 1763244000.0
    with path.open("wb") as file:
        while file.tell() < SIZE:
            file.write(encode_lines(moment, STDOUT, texts))
            moment += 1.0
        file.write(encode_lines(moment, STDOUT, rare))


def grep(option: str, text: str) -> float:
    start = time.perf_counter()
    subprocess.run(["grep", "-c", option, text, *files], stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def search(text: str, *, regex: bool) -> float:
    start = time.perf_counter()
    wl.search_logs(text, regex=regex).count()
    return time.perf_counter() - start


list(begin.map(range(TRIALS)))
files = [
    str(HOME / "trials" / str(trial.id) / "main-0" / "1" / "log") for trial in wl.list_trials()
]
for place, name in enumerate(files):
    fill(Path(name), place)

for _ in sys.stdin:
    answer = {
        "plain": [search(text, regex=False) for text in PLAIN],
        "grep -c": [grep("-F", text) for text in PLAIN],
        "regex": [search(text, regex=True) for text in EXPRESSIONS],
        "grep -cE": [grep("-E", text) for text in EXPRESSIONS],
    }
    print("=", json.dumps(answer), flush=True)
