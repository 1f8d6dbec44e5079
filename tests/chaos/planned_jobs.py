"""Jobs with a known correct end under any kills."""

from __future__ import annotations

import dataclasses
import json
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil

import windlass as wl
from harness import PATIENCE, eventually
from windlass.model.hardware.resources import Resources
from windlass.model.job import JobSpec, ProcessCall, RestartPolicy, RestartScope, Role
from windlass.model.records import Attempt, TrialRecord
from windlass.model.requests import CreateTrial
from windlass.worker.common.process_identity import is_alive

_MEMBER = str(Path(__file__).with_name("replica_program.py"))
_AGAIN = (128, 130, 134, 137, 143, 255)  # exit codes that are retried under ExitCode
_FOR_GOOD = (1, 2, 64, 127)
_BOTH = ("supervisor", "process")
_AT_WORK = (psutil.STATUS_RUNNING, psutil.STATUS_SLEEPING, psutil.STATUS_DISK_SLEEP)
_MANY = 50  # more restarts than possible


@dataclasses.dataclass
class Fate:
    """The plan of one job: the behaviour of its replicas, its correct end, and the kills."""

    name: str
    policy: str
    scope: str
    limit: int
    ends: dict[str, list[tuple[int, float]]]  # by replica, one after the other
    state: str = "SUCCEEDED"
    reason: str = "Completed"
    last: str | None = None  # it ends when all other replicas have ended
    slow: dict[str, float] = dataclasses.field(default_factory=dict)  # seconds to exit when stopped
    killed: dict[tuple[str, int], str] = dataclasses.field(default_factory=dict)

    @classmethod
    def draw(cls, name: str, chance: random.Random, longest: float) -> Fate:
        """Draw a plan of a random kind."""
        kind = chance.choice(["alone", "alone", "together", "together", "never", "worn", "failed"])
        replicas = [f"worker-{index}" for index in range(chance.randrange(1, 4))]
        policy = chance.choice(["ExitCode", "OnFailure"])

        def end(code: int) -> tuple[int, float]:
            return code, round(chance.uniform(0, longest), 3)

        ends = {replica: [end(0)] for replica in replicas}
        culprit = chance.choice(replicas)
        if kind == "never":
            return cls(name, "Never", "replica", _MANY, ends)
        if kind == "worn":
            ends = {"worker-0": [end(chance.choice(_AGAIN))]}
            return cls(name, policy, "replica", 1, ends, "FAILED", "BackoffLimitExceeded")
        if kind == "failed":
            ends[culprit] = [end(chance.choice(_FOR_GOOD))]
            return cls(
                name, "ExitCode", "replica", _MANY, ends, "FAILED", "ReplicaFailed", last=culprit
            )
        if chance.random() < 0.5:
            ends[culprit].insert(0, end(chance.choice(_AGAIN)))
        if kind == "alone":
            return cls(name, policy, "replica", _MANY, ends)
        # Its exit takes longer than the pause before the other replicas restart.
        slow = {chance.choice(replicas): round(chance.uniform(0.5, 2.5), 3)}
        return cls(name, policy, "job", _MANY, ends, slow=slow)

    def request(self, folder: Path) -> CreateTrial:
        """Return the request. Sending the request twice creates one job."""
        plan = json.dumps({"ends": self.ends, "last": self.last, "slow": self.slow})
        argv = ("python", "-I", "-S", _MEMBER, str(folder), self.name, plan)
        worker = Role(
            name="worker",
            executable=ProcessCall(argv=argv),
            replicas=len(self.ends),
            resources=Resources(cpus=0.05),
            restart_policy=RestartPolicy(self.policy),
        )
        return CreateTrial(
            key=uuid.uuid4().hex,
            experiment="fates",
            name=self.name,
            spec=JobSpec(
                roles=(worker,), restart_scope=RestartScope(self.scope), backoff_limit=self.limit
            ),
        )

    def check(self, trial: wl.Trial[Any], marks: list[list[str]]) -> None:
        """Check that the job ended as planned, ran nothing twice, and has consistent records."""
        about = f"{self}\n{trial.record}\n{marks}"
        assert not [mark for mark in marks if mark[2] == "twice"], about
        begun = Counter((mark[0], int(mark[1])) for mark in marks if mark[2] == "begins")
        assert set(begun.values()) <= {1}, about
        self._check_end(trial, about)
        attempts = {
            (f"{attempt.role}-{attempt.index}", attempt.attempt): attempt
            for attempt in trial.attempts
        }
        assert begun.keys() <= attempts.keys(), about
        exit_codes = {(mark[0], int(mark[1])): int(mark[3]) for mark in marks if mark[2] == "ends"}
        for which, attempt in attempts.items():
            self._check_attempt(trial, which, attempt, exit_codes.get(which), about)
        self._check_count(trial, attempts, exit_codes, about)

    def _check_end(self, trial: wl.Trial[Any], about: str) -> None:
        if self.policy == "Never" and self.killed:
            assert (trial.state, trial.record.reason) == ("FAILED", "ReplicaFailed"), about
        else:
            assert (trial.state, trial.record.reason) == (self.state, self.reason), about
        if self.reason == "BackoffLimitExceeded":
            assert trial.restarts == self.limit, about
        if self.last is not None:
            assert trial.exit_code == self.ends[self.last][0][0], about

    def _check_attempt(
        self,
        trial: wl.Trial[Any],
        which: tuple[str, int],
        attempt: Attempt,
        planned: int | None,
        about: str,
    ) -> None:
        """Check that the exit is as planned, or caused by a kill."""
        if attempt.reason == "Stopped":  # because of another replica
            assert self.scope == "job" or trial.state == "FAILED", about
            return
        lost_or_killed = {"supervisor": None, "process": 137}
        right = lost_or_killed[self.killed[which]] if which in self.killed else planned
        assert attempt.exit_code == right, f"{which} was to end with {right}: {about}"

    def _check_count(
        self,
        trial: wl.Trial[Any],
        attempts: dict[tuple[str, int], Attempt],
        exit_codes: dict[tuple[str, int], int],
        about: str,
    ) -> None:
        """Check that restarts, attempts and events agree."""
        newest: dict[str, int] = {}
        for replica, attempt in attempts:
            newest[replica] = max(attempt, newest.get(replica, 0))
        events = trial.refresh().events
        restarts = [event for event in events if event.reason == "ReplicaRestarting"]
        assert len(restarts) == trial.restarts, about
        start_messages = [event.message for event in events if event.reason == "ReplicaStarting"]
        assert len(start_messages) == len(set(start_messages)), (
            f"no attempt is asked for twice: {about}"
        )
        made = {f"starting {replica} attempt {attempt}" for replica, attempt in attempts}
        # An attempt may be requested and never created: the server died, and another replica ended
        # the job.
        assert made <= set(start_messages), about
        if self.scope == "job":
            assert len(set(newest.values())) == 1, about
            # Several ends in one attempt count as one failure.
            unlucky = {attempt for _, attempt in self.killed}
            unlucky |= {attempt for (_, attempt), code in exit_codes.items() if code != 0}
            assert trial.restarts == max(newest.values()) - 1 == len(unlucky), about
        else:
            assert made == set(start_messages) or trial.state == "FAILED", about
            assert len(attempts) == sum(newest.values()), about
            assert trial.restarts == len(attempts) - len(newest), about
            if self.policy != "Never" and self.limit == _MANY:
                failures = sum(code != 0 for code in exit_codes.values())
                failures -= self.last is not None  # which ended the job
                assert trial.restarts == failures + len(self.killed), about


class Fates:
    """Many planned jobs at once."""

    def __init__(self, folder: Path) -> None:
        self.jobs: list[tuple[Fate, wl.Trial[Any]]] = []
        self._folder = folder

    @property
    def killed(self) -> int:
        """Count the killed attempts."""
        return sum(len(fate.killed) for fate, _ in self.jobs)

    def submit(self, fate: Fate) -> None:
        """Submit until a server has answered. One key creates one job."""
        request = fate.request(self._folder)
        deadline = time.monotonic() + PATIENCE
        while True:
            transport = wl.Client().transport
            try:
                record = transport.ask("POST", "/trials", TrialRecord, body=request)
                break
            except wl.ServerUnreachable:
                assert time.monotonic() < deadline
        self.jobs.append((fate, wl.Trial(transport, record)))

    def marks(self, fate: Fate) -> list[list[str]]:
        """Return the marks of a job's processes: replica, attempt, event and code version."""
        path = self._folder / f"{fate.name}.marks"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def kill_some(self, chance: random.Random) -> int:
        """Kill the supervisor or the process of a running attempt, and return the number of kills.

        Each replica is killed once, so that the pauses before restarts stay short.
        """
        candidates = [
            (fate, replica, attempt, state)
            for fate, trial in list(self.jobs)
            for replica, attempt, state in _running(trial)
            if not any(killed_replica == replica for killed_replica, _ in fate.killed)
        ]
        if not candidates:
            return 0
        fate, replica, attempt, state = chance.choice(candidates)
        return self._kill(fate, replica, attempt, state, chance.choice(["supervisor", "process"]))

    def _kill(
        self, fate: Fate, replica: str, attempt: int, state: dict[str, Any], whom: str
    ) -> int:
        """Kill one process of an attempt, unless it has ended by itself.

        The process is halted meanwhile, so that the cause of its end is certain.
        """
        try:
            process = psutil.Process(state["process"]["pid"])
            victim = psutil.Process(state[whom]["pid"])
            process.suspend()
            eventually(lambda: process.status() not in _AT_WORK, "it is halted")
            is_there = all(is_alive(state[who]["pid"], state[who]["identity"]) for who in _BOTH)
            has_ended = [replica, str(attempt), "ends"] in [mark[:3] for mark in self.marks(fate)]
            if has_ended or not is_there:
                process.resume()
                return 0
            victim.kill()
        except psutil.NoSuchProcess:
            return 0
        fate.killed[replica, attempt] = whom
        return 1

    def check(self) -> None:
        """Check that every job ended as planned."""
        for _, trial in self.jobs:
            trial.wait(timeout=PATIENCE)
        for fate, trial in self.jobs:
            eventually(partial(_is_over, trial), "all of it has ended")
            fate.check(trial, self.marks(fate))


def _running(trial: wl.Trial[Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Return the running attempts of a job: replica, attempt, state file of the supervisor."""
    for path in Path(trial.directory).glob("*/*/state.json"):
        if not path.with_name("exit.json").exists():
            state = json.loads(path.read_text())
            if state["stage"] == "running":
                yield path.parts[-3], int(path.parts[-2]), state


def _is_over(trial: wl.Trial[Any]) -> bool:
    return all(attempt.ended is not None for attempt in trial.refresh().attempts)
