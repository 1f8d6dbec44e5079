"""The running program's trial, read from the attempt's files."""

from __future__ import annotations

import os

from windlass.worker.common.file_reads import read_json
from windlass.worker.common.own_attempt import attempt_dir, replica, trial_dir
from windlass.worker.program.context import rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class CurrentTrial:
    """The running program's trial, including the replica and attempt of this process.

    ```python
    trial = wl.current_trial()
    if trial is not None:
        print(trial.id, trial.name, trial.params, trial.directory)
    ```
    """

    def __init__(
        self,
        *,
        id: int,  # noqa: A002 -- the field's name in every other interface
        uid: str,
        name: str,
        experiment: str,
        params: dict[str, Any],
        directory: str,
        role: str,
        index: int,
        attempt: int,
        rank: int,
    ) -> None:
        self.id = id
        self.uid = uid
        self.name = name
        self.experiment = experiment
        self.params = params
        self.directory = directory
        self.role = role
        self.index = index
        self.attempt = attempt
        self.rank = rank

    def __repr__(self) -> str:
        which = f"{self.role}-{self.index}, attempt {self.attempt}"
        return f"<CurrentTrial {self.id} {self.name}: {which}>"


def current_trial() -> CurrentTrial | None:
    """Return the running program's trial, or None outside of a trial.

    `id`, `name`, `experiment`, `params` and `directory` describe the trial. `role`, `index`,
    `attempt` and `rank` describe this program's replica. No request is sent, because the values
    were written to a file before the process started.

    ```python
    trial = wl.current_trial()
    where = "on its own" if trial is None else f"in trial {trial.id}"
    ```
    """
    directory, attempt, own = trial_dir(), attempt_dir(), replica()
    if directory is None or attempt is None or own is None:
        return None
    trial = (read_json(os.path.join(attempt, "launch.json")) or {}).get("trial") or {}
    uid, role, index, number = own
    return CurrentTrial(
        id=int(os.environ["WINDLASS_TRIAL_ID"]),
        uid=uid,
        name=trial.get("name", ""),
        experiment=trial.get("experiment", ""),
        params=trial.get("params", {}),
        directory=directory,
        role=role,
        index=int(index),
        attempt=int(number),
        rank=rank(),
    )
