"""Jobs whose fate is known beforehand, and whether each of them met it, once."""

from __future__ import annotations

from collections import Counter
from random import Random

from kube.operating import Jobs
from windlass.kube.kinds import PODS
from windlass.kube.watching import Watcher

# How a job goes, how it must end, and in which attempt. Programs know their attempt, so that what
# happens is the same whoever watches.
_DIE = "import os, sys; sys.exit({} if os.environ['WINDLASS_ATTEMPT'] < '{}' else 0)"
FATES = [
    ("pass", "Succeeded", 1),
    ("import time; time.sleep(2)", "Succeeded", 1),
    (_DIE.format(137, 2), "Succeeded", 2),
    ("import sys; sys.exit(3)", "Failed", 1),
    (_DIE.format(143, 3), "Succeeded", 3),
]

Name = tuple[str, str]  # the kind, and the name


class Births:
    """Every pod that was ever created, by name and attempt. A context manager."""

    def __init__(self, jobs: Jobs) -> None:
        self.seen: Counter[tuple[str, str]] = Counter()
        self._watcher = Watcher(
            jobs.connection, PODS, namespace=jobs.namespace, on_change=self._changed
        )

    def __enter__(self) -> Births:
        self._watcher.start()
        assert self._watcher.synced.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._watcher.stop()

    def _changed(self, before: object, after: object) -> None:
        if before is None and isinstance(after, dict):
            metadata = after["metadata"]
            self.seen[metadata["name"], metadata["labels"]["windlass.dev/attempt"]] += 1


def create_fated(jobs: Jobs, number: int, chance: Random) -> list[Name]:
    """So many jobs of one replica, of either kind."""
    names = []
    for each in range(number):
        program, _, _ = FATES[each % len(FATES)]
        kind = chance.choice(["TFJob", "PyTorchJob"])
        role = jobs.role(1, program, restartPolicy="ExitCode")
        policy = {"cleanPodPolicy": "None", "backoffLimit": 6}
        name = f"{kind.lower()}-{each}"
        jobs.create(kind, name, spec={"runPolicy": policy}, Master=role)
        names.append((kind, name))
    return names


def are_over(jobs: Jobs, names: list[Name]) -> bool:
    """Whether all of them have ended."""
    return not unfinished(jobs, names)


def unfinished(jobs: Jobs, names: list[Name]) -> dict[str, object]:
    """What holds of those that have not ended."""
    held = {name: jobs.conditions(kind, name) for kind, name in names}
    return {name: each for name, each in held.items() if not {"Succeeded", "Failed"} & set(each)}


def check_fates(jobs: Jobs, births: Births, names: list[Name], seed: int) -> None:
    """That each ended as it had to, that no pod was made twice, and that none is left behind."""
    for number, (kind, name) in enumerate(names):
        _, wanted, attempts = FATES[number % len(FATES)]
        end = jobs.ended(kind, name)
        assert end["type"] == wanted, f"seed {seed}: {name}: {end}"
        pod = f"{name}-master-0"
        assert jobs.attempt(pod) == attempts, f"seed {seed}: {name}"
        for attempt in range(1, attempts + 1):
            assert births.seen[pod, str(attempt)] == 1, f"seed {seed}: {births.seen}"
    made = sum(FATES[number % len(FATES)][2] for number in range(len(names)))
    assert len(births.seen) == made, f"seed {seed}"
    for kind, name in names:
        jobs.delete(kind, name)
    jobs.wait_nothing_left()
