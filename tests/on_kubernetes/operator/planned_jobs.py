"""Jobs with a known correct end, and the check that each reached it once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from on_kubernetes.operator.operator_process import Jobs
from windlass.kube.api.resource_kinds import PODS
from windlass.kube.api.watch import Watcher

# Programs know their identity and attempt, so that the result is independent of the operator.
_FALL = """
import os, sys
role, index, attempt = (os.environ[f"WINDLASS_{each}"] for each in ("ROLE", "INDEX", "ATTEMPT"))
if f"{role}-{index}" == "VICTIM" and int(attempt) <= FALLS:
    sys.exit(CODE)
"""
# None ends before all exist, so that the operator that starts the last one finds the others
# running.
_MEET = """
import json, os, socket, sys, time
hosts = json.loads(os.environ["WINDLASS_HOSTS"])
host, _, port = hosts["master"][0].rpartition(":")
if os.environ["WINDLASS_ROLE"] == "master":
    server, met = socket.create_server(("", int(port))), {}
    while len(met) < len(hosts["worker"]):
        peer, _ = server.accept()
        if name := peer.recv(1):
            met[name] = peer
    for peer in met.values():
        peer.sendall(b"!")
    sys.exit(0)
while True:
    try:
        with socket.create_connection((host, int(port)), timeout=5) as master:
            master.settimeout(None)
            master.sendall(os.environ["WINDLASS_INDEX"].encode())
            if master.recv(1):
                sys.exit(0)
    except OSError:
        pass
    time.sleep(0.2)
"""


@dataclass(frozen=True)
class Fate:
    """The plan of a job and its correct end. One of its replicas may fail a number of times."""

    end: str = "Succeeded"
    program: str = ""
    workers: int = 0
    victim: str = "master-0"
    falls: int = 0
    code: int = 0

    @property
    def replicas(self) -> list[str]:
        return ["master-0", *(f"worker-{index}" for index in range(self.workers))]

    @property
    def text(self) -> str:
        """The program of every replica."""
        words = {"VICTIM": self.victim, "FALLS": str(self.falls), "CODE": str(self.code)}
        fall = _FALL
        for word, expected in words.items():
            fall = fall.replace(word, expected)
        return fall + (_MEET if self.workers else self.program)

    def last_attempt(self, kind: str, replica: str) -> int:
        """The replicas of a PyTorchJob restart together."""
        is_to_fall = replica == self.victim or kind == "PyTorchJob"
        return self.falls + 1 if is_to_fall and self.end == "Succeeded" else 1


FATES = [
    Fate(),
    Fate(workers=2),
    Fate(falls=1, code=137),
    Fate(workers=2, victim="worker-1", falls=1, code=137),
    Fate("Failed", falls=1, code=3),
    Fate("Failed", workers=2, victim="worker-1", falls=1, code=3),
    Fate(program="import time; time.sleep(2)"),
    Fate(workers=2, falls=1, code=143),
    Fate(falls=2, code=143),
]

Name = tuple[str, str]  # the kind, and the name


class Births:
    """Every created pod, by name and attempt. A context manager."""

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
    """Create this many jobs of either kind, with one replica or with a master and workers."""
    names = []
    for index in range(number):
        fate = FATES[index % len(FATES)]
        kind = chance.choice(["TFJob", "PyTorchJob"])
        roles = {"Master": jobs.role(1, fate.text, restartPolicy="ExitCode")}
        if fate.workers:
            roles["Worker"] = jobs.role(fate.workers, fate.text, restartPolicy="ExitCode")
        policy = {"cleanPodPolicy": "None", "backoffLimit": 6}
        name = f"{kind.lower()}-{index}"
        jobs.create(kind, name, spec={"runPolicy": policy}, **roles)
        names.append((kind, name))
    return names


def are_over(jobs: Jobs, names: list[Name]) -> bool:
    """Return whether all of them have ended."""
    return not unfinished(jobs, names)


def unfinished(jobs: Jobs, names: list[Name]) -> dict[str, object]:
    """The conditions of unfinished jobs."""
    held = {name: jobs.conditions(kind, name) for kind, name in names}
    return {
        name: conditions
        for name, conditions in held.items()
        if not {"Succeeded", "Failed"} & set(conditions)
    }


def check_fates(jobs: Jobs, births: Births, names: list[Name], seed: int) -> None:
    """Check that each job ended as planned, no pod was created twice, and none is left."""
    last = dict(_last_attempts(names))
    for number, (kind, name) in enumerate(names):
        end = jobs.ended(kind, name)
        assert end["type"] == FATES[number % len(FATES)].end, f"seed {seed}: {name}: {end}"
    assert {name: jobs.attempt(name) for name in last} == last, f"seed {seed}"
    twice = {name: count for name, count in births.seen.items() if count > 1}
    assert not twice, f"seed {seed}"
    for pod, attempt in births.seen:
        assert int(attempt) <= last.get(pod, 1), f"seed {seed}: {pod}"
    for pod, attempts in last.items():
        assert births.seen[pod, str(attempts)] == 1, f"seed {seed}: {pod}"
    for kind, name in names:
        jobs.delete(kind, name)
    jobs.wait_nothing_left()


def _last_attempts(names: list[Name]) -> Iterator[tuple[str, int]]:
    """The last attempt of every pod that must exist at the end.

    A job may fail before the last of its other replicas is created.
    """
    for number, (kind, name) in enumerate(names):
        fate = FATES[number % len(FATES)]
        for replica in fate.replicas if fate.end == "Succeeded" else [fate.victim]:
            yield f"{name}-{replica}", fate.last_attempt(kind, replica)
