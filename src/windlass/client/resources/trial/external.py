"""Trials that record processes not started by Windlass, such as notebooks."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from windlass.client.connection.event_stream import TrialEvents
from windlass.client.resources.trial.trial import Trial
from windlass.model.errors import (
    Conflict,
    InvalidArgument,
    ServerError,
    Unsupported,
    WindlassError,
    shown,
)
from windlass.model.hardware.resources import Resources
from windlass.model.job import ExternalCall, JobSpec, Role
from windlass.model.records import TrialKind, TrialRecord, TrialState
from windlass.model.requests import CreateTrial
from windlass.model.text.names import DEFAULT
from windlass.worker.program.external_trial import EXTERNAL, Presence

if TYPE_CHECKING:
    from windlass.client.connection.transport import Transport
    from windlass.client.resources.experiment.experiment import Experiment

_PATIENCE = 10.0  # seconds to wait until the server notices the end
_ROLE = "main"


class ExternalTrial(Trial[None]):
    """A trial that records this process, from `wl.start_trial` until `finish()`.

    In a `with` statement, the trial finishes at the end of the block. An exception makes it fail,
    and Ctrl-C stops it. In all other respects, the object works like any other trial.

    ```python
    with wl.start_trial("notebook", params={"lr": 0.1}) as trial:
        wl.report(0, loss=0.5)
    print(trial.state)  # SUCCEEDED
    ```
    """

    def __init__(self, transport: Transport, record: TrialRecord, presence: Presence) -> None:
        super().__init__(transport, record)
        self._presence = presence

    def finish(self, error: BaseException | None = None) -> ExternalTrial:
        """Finish the trial. With an exception, the trial fails. Later calls do nothing.

        ```python
        trial = wl.start_trial("by-hand")
        wl.report(0, loss=0.5)
        trial.finish()
        ```
        """
        if error is not None and not isinstance(error, BaseException):
            raise InvalidArgument(f"finish: {shown(error)} is not an exception.")
        if not self._presence.is_here:
            return self
        atexit.unregister(self._finish_at_exit)
        self._presence.end(error)
        # A running server notices the end by itself. A stopped server notices it when it next
        # starts.
        with contextlib.suppress(WindlassError):
            self.wait(_PATIENCE)
        return self

    def __enter__(self) -> ExternalTrial:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.finish(error)

    def _begin(self) -> None:
        self._presence.begin()
        atexit.register(self._finish_at_exit)
        following = TrialEvents(self._transport, trial_id=self.id, logs=False, timeout=_PATIENCE)
        # The trial runs even if the server cannot confirm it now.
        with contextlib.suppress(WindlassError):
            for news in following:
                if isinstance(news, TrialRecord):
                    self._replace(news)
                if self._record.state is not TrialState.STARTING:
                    break

    def _finish_at_exit(self) -> None:
        """Finish the trial when the program ends.

        An uncaught exception makes the trial fail.
        """
        is_interactive = hasattr(sys, "ps1") or "IPython" in sys.modules
        self._presence.end(None if is_interactive else getattr(sys, "last_value", None))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle this object as an ordinary `Trial`.

        It cannot stay an `ExternalTrial`, because the process that unpickles it is not the process
        that the trial records.
        """
        return Trial(self._transport, self._record).__reduce__()


def start(
    transport: Transport,
    name: str,
    experiment: str | Experiment | None,
    params: Mapping[str, Any] | None,
    labels: Sequence[str],
) -> ExternalTrial:
    """Create a trial that records this process."""
    from windlass.packaging.params import describe_params
    from windlass.packaging.project_files.project_root import own_root, project_name
    from windlass.packaging.provenance import collect

    _check(name, experiment, params, labels)
    _check_free()
    home = _local_home(transport)
    if experiment is None or isinstance(experiment, str):
        belongs_to, number = experiment or name, None
    else:
        belongs_to, number = experiment.name, experiment.id
    project = DEFAULT if experiment is not None else project_name(own_root())
    argv = tuple(word.replace("\0", "") for word in (sys.argv or [""])[:1000])
    role = Role(executable=ExternalCall(argv=argv), name=_ROLE, resources=Resources(cpus=0))
    request = CreateTrial(
        key=uuid.uuid4().hex,  # makes a retried request harmless
        kind=TrialKind.EXTERNAL,
        experiment=belongs_to,
        experiment_id=number,
        project=project,
        name=name,
        spec=JobSpec(roles=(role,)),
        params=describe_params(params or {}),
        provenance=collect(),
        labels=tuple(dict.fromkeys(labels)),
    )
    record = transport.ask("POST", "/trials", TrialRecord, body=request)
    folder = os.path.join(home, "trials", str(record.id), f"{_ROLE}-0", "1")
    try:
        trial = ExternalTrial(transport, record, Presence(folder))
        trial._begin()
    except OSError as error:
        raise ServerError(
            f"Trial {record.id} cannot start: {error}.",
            hint=f"Its files belong in {folder}; see: windlass doctor",
        ) from error
    return trial


def _check(name: Any, experiment: Any, params: Any, labels: Any) -> None:
    from windlass.authoring.checks.options import check_labels, check_name

    problems = [text for _, text in check_name("name", "" if name is None else name)]
    if isinstance(experiment, str):
        problems += [text for _, text in check_name("experiment", experiment)]
    elif experiment is not None and not hasattr(experiment, "trial_count"):
        problems.append(
            f"experiment: {shown(experiment)} is neither an experiment nor the name of one"
        )
    if params is not None and not isinstance(params, Mapping):
        problems.append(f"params: {shown(params)} is not a mapping; write params={{'lr': 0.1}}")
    problems += [text for _, text in check_labels(labels)]
    if problems:
        raise InvalidArgument.of(problems, where="wl.start_trial")


def _check_free() -> None:
    """Raise an error if this process is already a trial.

    A process can be only one trial at a time, because all its reports go to the same trial.
    """
    own = os.environ.get("WINDLASS_TRIAL_ID")
    if own is None:
        return
    if EXTERNAL in os.environ:
        raise Conflict(
            f"This process already is trial {own}.",
            hint="Finish it first: trial.finish(), or the end of its with block.",
        )
    raise Conflict(
        f"This program runs in trial {own}, which Windlass started. It cannot start another.",
        hint="Report to this trial: wl.report(...). To start a trial only outside of one: "
        "if wl.current_trial() is None",
    )


def _local_home(transport: Transport) -> str:
    """Return the server's home.

    The server must run on this machine, because this process writes files to the home.
    """
    endpoint = transport.endpoint
    if endpoint.home is not None:
        return os.fspath(endpoint.home.path)
    from windlass.model.requests import ServerInfo
    from windlass.worker.common.file_reads import read_json
    from windlass.worker.common.process_identity import is_alive

    info = transport.ask("GET", "/server", ServerInfo)
    server_file = read_json(os.path.join(info.home, "server.json")) or {}
    is_here = server_file.get("pid") == info.pid and is_alive(
        info.pid, str(server_file.get("identity", ""))
    )
    if not is_here or not os.access(info.home, os.W_OK):
        raise Unsupported(
            f"The server at {endpoint.url} is on another machine ({info.host}): it cannot "
            "record a process of this machine.",
            hint="Unset WINDLASS_SERVER to use the server of this machine, or launch it: "
            "windlass run SCRIPT",
        )
    return info.home
