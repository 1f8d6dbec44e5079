"""Lists of very many trials: pages that are filtered and sorted, and a walk through all."""

import json
import resource
import sys
import time
from collections.abc import Callable

import windlass as wl

PAGE = 100


def page(**asked: object) -> Callable[[], None]:
    """A question for one page of trials."""

    def ask() -> None:
        found = list(wl.list_trials(limit=PAGE, **asked))  # type: ignore[arg-type]
        if len(found) != PAGE:
            sys.exit(f"{len(found)} trials came back, not {PAGE}")

    return ask


QUESTIONS = {
    "first": page(sort_by="-created"),
    "state": page(state="FAILED", sort_by="-created"),
    "where": page(where="hparams.lr < 0.01 and hparams.layers >= 4", sort_by="-created"),
    "by-metric": page(sort_by="metrics.loss"),
    "by-hparam": page(sort_by="-hparams.lr"),
    "hparam": page(where="hparams.lr < 0.01 and hparams.layers >= 4", sort_by="hparams.lr"),
    "metric": page(where="metrics.loss.min < 0.3", sort_by="-metrics.loss.min"),
    "mixed": page(
        where="hparams.lr < 0.1 and metrics.validation/loss < 0.5 and state = 'FAILED'",
        sort_by="metrics.loss.min",
    ),
    "rare": page(where="hparams.seed < 1000", sort_by="metrics.loss.min"),
}


def megabytes() -> float:
    """The most memory this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def walk(count: int) -> dict[str, float]:
    """Read so many one after the other: how long that took, and what memory."""
    found = wl.list_trials(limit=count)
    for _ in range(10 * PAGE):
        next(found)
    before, start = megabytes(), time.perf_counter()
    count = sum(1 for _ in found)
    return {"count": count, "took": time.perf_counter() - start, "grown": megabytes() - before}


if __name__ == "__main__":
    for line in sys.stdin:
        if line.startswith("walk "):
            print("= " + json.dumps(walk(int(line.split()[1]))), flush=True)
            continue
        took = {}
        for name, ask in QUESTIONS.items():
            start = time.perf_counter()
            ask()
            took[name] = time.perf_counter() - start
        print("= " + json.dumps(took), flush=True)
