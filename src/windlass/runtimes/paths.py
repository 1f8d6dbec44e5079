"""The paths of an attempt's files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from windlass.model.status import ReplicaId
from windlass.worker.blobs.digest import path_in_store
from windlass.worker.common.file_reads import is_folder, list_folder

LAUNCH = "launch.json"
LOCK = "lock"
STATE = "state.json"
FACTS = "facts.json"  # facts about a remote attempt's machine
STOP = "stop.json"
EXIT = "exit.json"
TAKEN_UP = "taken-up.json"  # written by the server once a remote attempt's agent has started
LOG = "log"
METRICS = "metrics"
SHOULD_STOP = "should_stop"  # a file in the trial's directory
RESULT = "result.pkl"
RESULT_TEXT = "result.json"
ERROR = "error.json"
ERROR_PICKLE = "error.pkl"


def trial_dir(home: Path, trial_id: int) -> Path:
    """Return the directory of a trial.

    >>> print(trial_dir(Path("/home/ada/.windlass"), 7))
    /home/ada/.windlass/trials/7
    """
    return home / "trials" / str(trial_id)


def replica_dir(home: Path, trial_id: int, replica: ReplicaId) -> Path:
    """Return the directory of a replica, which contains `work/` and one directory per attempt.

    >>> print(replica_dir(Path("/h"), 7, ReplicaId("main", 0, 1)))
    /h/trials/7/main-0
    """
    return trial_dir(home, trial_id) / f"{replica.role}-{replica.index}"


def attempt_dir(home: Path, trial_id: int, replica: ReplicaId) -> Path:
    """Return the directory of an attempt. The attempt's log is `attempt_dir(...) / LOG`.

    >>> print(attempt_dir(Path("/h"), 7, ReplicaId("main", 0, 2)) / LOG)
    /h/trials/7/main-0/2/log
    """
    return replica_dir(home, trial_id, replica) / str(replica.attempt)


def attempts(home: Path, trial_id: int) -> Iterator[tuple[ReplicaId, Path]]:
    """Yield each of a trial's attempts that has a directory, ordered by role, index and attempt."""
    by_replica: list[tuple[ReplicaId, Path]] = []
    trial = trial_dir(home, trial_id)
    for name in list_folder(trial):
        role, _, index = name.rpartition("-")
        if not role or not _is_number(index):
            continue
        by_replica += [
            (ReplicaId(role, int(index), int(attempt)), trial / name / attempt)
            for attempt in list_folder(trial / name)
            if _is_number(attempt) and is_folder(trial / name / attempt)
        ]
    yield from sorted(by_replica)


def _is_number(name: str) -> bool:
    """Return whether a folder name is a number.

    A folder with any other name is not an attempt, because trials can create folders beside
    attempts.
    """
    return name.isdecimal() and name.isascii() and len(name) <= 9


def checkpoints_dir(home: Path, trial_id: int) -> Path:
    """Return the directory of a trial's checkpoints, which all replicas and attempts share.

    >>> print(checkpoints_dir(Path("/h"), 7))
    /h/trials/7/checkpoints
    """
    return trial_dir(home, trial_id) / "checkpoints"


def blob_path(home: Path, digest: str) -> Path:
    """Return the path of a blob's file.

    >>> print(blob_path(Path("/h"), "ab" * 32))  # doctest: +ELLIPSIS
    /h/blobs/ab/abab...
    """
    return Path(path_in_store(str(home / "blobs"), digest))


def private_path(home: Path, uid: str) -> Path:
    """Return the path of the file that holds a trial's private data (environment and secrets)."""
    return home / "private" / uid


def environment_dir(home: Path, digest: str) -> Path:
    """Return the directory of an environment created for `packages=`."""
    return home / "envs" / digest


def job_records_dir(home: Path) -> Path:
    """Return the directory for the records of Kubernetes jobs. The directory may not exist."""
    return home / "pods"


def server_file(home: Path) -> Path:
    """Return the path of the file that contains the server's address."""
    return home / "server.json"
