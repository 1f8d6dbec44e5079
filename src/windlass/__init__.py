"""Windlass: from a function on a laptop to a hundred-host training run.

```python
import windlass as wl


@wl.run
def train(lr):
    return 1 - lr


accuracy = train(0.1)
```

Every public name is loaded when it is first used: importing this package costs next to nothing.
"""

from windlass.version import __version__

TYPE_CHECKING = False  # as type checkers know it; importing typing takes longer than all of this
if TYPE_CHECKING:
    from windlass.api import compare as compare
    from windlass.api import create_experiment as create_experiment
    from windlass.api import create_model as create_model
    from windlass.api import create_template as create_template
    from windlass.api import create_workspace as create_workspace
    from windlass.api import gc as gc
    from windlass.api import get_checkpoint as get_checkpoint
    from windlass.api import get_command as get_command
    from windlass.api import get_experiment as get_experiment
    from windlass.api import get_metrics as get_metrics
    from windlass.api import get_model as get_model
    from windlass.api import get_project as get_project
    from windlass.api import get_shell as get_shell
    from windlass.api import get_template as get_template
    from windlass.api import get_trial as get_trial
    from windlass.api import get_workspace as get_workspace
    from windlass.api import list_checkpoints as list_checkpoints
    from windlass.api import list_commands as list_commands
    from windlass.api import list_experiments as list_experiments
    from windlass.api import list_models as list_models
    from windlass.api import list_projects as list_projects
    from windlass.api import list_queue as list_queue
    from windlass.api import list_shells as list_shells
    from windlass.api import list_templates as list_templates
    from windlass.api import list_trials as list_trials
    from windlass.api import list_workspaces as list_workspaces
    from windlass.api import open_shell as open_shell
    from windlass.api import package as package
    from windlass.api import run_command as run_command
    from windlass.api import search_logs as search_logs
    from windlass.api import server_info as server_info
    from windlass.api import start_trial as start_trial
    from windlass.authoring.authentication import (
        KubeConfigFileAuthentication as KubeConfigFileAuthentication,
    )
    from windlass.authoring.authentication import TokenAuthentication as TokenAuthentication
    from windlass.authoring.executables import Command as Command
    from windlass.authoring.executables import Container as Container
    from windlass.authoring.executables import PythonFunction as PythonFunction
    from windlass.authoring.executables import PythonModule as PythonModule
    from windlass.authoring.executables import PythonScript as PythonScript
    from windlass.authoring.executables import Raw as Raw
    from windlass.authoring.executors import Kubernetes as Kubernetes
    from windlass.authoring.executors import Local as Local
    from windlass.authoring.executors import Ray as Ray
    from windlass.authoring.function import Function as Function
    from windlass.authoring.function import run as run
    from windlass.authoring.jobs import Job as Job
    from windlass.authoring.jobs import JobGroup as JobGroup
    from windlass.authoring.packaged import Packaged as Packaged
    from windlass.client.checkpoints import Checkpoint as Checkpoint
    from windlass.client.commands import CommandRun as CommandRun
    from windlass.client.curves import Curve as Curve
    from windlass.client.experiments import Experiment as Experiment
    from windlass.client.external import ExternalTrial as ExternalTrial
    from windlass.client.logs import LogLine as LogLine
    from windlass.client.logs import LogLines as LogLines
    from windlass.client.metrics import Metrics as Metrics
    from windlass.client.metrics import Point as Point
    from windlass.client.models import Model as Model
    from windlass.client.models import ModelVersion as ModelVersion
    from windlass.client.places import Project as Project
    from windlass.client.places import Workspace as Workspace
    from windlass.client.queueing import QueueEntry as QueueEntry
    from windlass.client.queueing import Task as Task
    from windlass.client.session import Client as Client
    from windlass.client.shells import Shell as Shell
    from windlass.client.templates import Template as Template
    from windlass.client.trials import Trial as Trial
    from windlass.comparing.experiments import ExperimentDiff as ExperimentDiff
    from windlass.comparing.tables import Table as Table
    from windlass.comparing.trials import Diff as Diff
    from windlass.integrations import callbacks as callbacks
    from windlass.integrations.profiling import profile as profile
    from windlass.model.accelerators import AcceleratorKind as AcceleratorKind
    from windlass.model.accelerators import accelerators as accelerators
    from windlass.model.errors import Conflict as Conflict
    from windlass.model.errors import ExperimentFailed as ExperimentFailed
    from windlass.model.errors import InvalidArgument as InvalidArgument
    from windlass.model.errors import KubernetesError as KubernetesError
    from windlass.model.errors import LaunchFailed as LaunchFailed
    from windlass.model.errors import NotFound as NotFound
    from windlass.model.errors import RemoteError as RemoteError
    from windlass.model.errors import ResourceError as ResourceError
    from windlass.model.errors import SerializationError as SerializationError
    from windlass.model.errors import ServerError as ServerError
    from windlass.model.errors import ServerUnreachable as ServerUnreachable
    from windlass.model.errors import SnapshotError as SnapshotError
    from windlass.model.errors import TrialFailed as TrialFailed
    from windlass.model.errors import TrialStopped as TrialStopped
    from windlass.model.errors import Unauthorized as Unauthorized
    from windlass.model.errors import Unsupported as Unsupported
    from windlass.model.errors import VersionMismatch as VersionMismatch
    from windlass.model.errors import WaitTimeout as WaitTimeout
    from windlass.model.errors import WindlassError as WindlassError
    from windlass.model.wire import GarbageReport as GarbageReport
    from windlass.search.result import SearchResult as SearchResult
    from windlass.search.spaces import choice as choice
    from windlass.search.spaces import loguniform as loguniform
    from windlass.search.spaces import randint as randint
    from windlass.search.spaces import uniform as uniform
    from windlass.worker.context import latest_checkpoint as latest_checkpoint
    from windlass.worker.context import rank as rank
    from windlass.worker.context import save_checkpoint as save_checkpoint
    from windlass.worker.context import should_stop as should_stop
    from windlass.worker.context import world_size as world_size
    from windlass.worker.current import CurrentTrial as CurrentTrial
    from windlass.worker.current import current_trial as current_trial
    from windlass.worker.outputs import output_dir as output_dir
    from windlass.worker.outputs import tensorboard_dir as tensorboard_dir
    from windlass.worker.reporting import report as report
    from windlass.worker.reporting import report_progress as report_progress

_WHERE = {
    "run": "windlass.authoring.function",
    "Function": "windlass.authoring.function",
    "Job": "windlass.authoring.jobs",
    "JobGroup": "windlass.authoring.jobs",
    "PythonScript": "windlass.authoring.executables",
    "PythonModule": "windlass.authoring.executables",
    "PythonFunction": "windlass.authoring.executables",
    "Command": "windlass.authoring.executables",
    "Container": "windlass.authoring.executables",
    "Raw": "windlass.authoring.executables",
    "Packaged": "windlass.authoring.packaged",
    "package": "windlass.api",
    "Local": "windlass.authoring.executors",
    "Kubernetes": "windlass.authoring.executors",
    "Ray": "windlass.authoring.executors",
    "TokenAuthentication": "windlass.authoring.authentication",
    "KubeConfigFileAuthentication": "windlass.authoring.authentication",
    "Client": "windlass.client.session",
    "Trial": "windlass.client.trials",
    "Experiment": "windlass.client.experiments",
    "Workspace": "windlass.client.places",
    "Project": "windlass.client.places",
    "Model": "windlass.client.models",
    "ModelVersion": "windlass.client.models",
    "Template": "windlass.client.templates",
    "LogLine": "windlass.client.logs",
    "Curve": "windlass.client.curves",
    "Metrics": "windlass.client.metrics",
    "LogLines": "windlass.client.logs",
    "Point": "windlass.client.metrics",
    "Checkpoint": "windlass.client.checkpoints",
    "get_checkpoint": "windlass.api",
    "list_checkpoints": "windlass.api",
    "get_trial": "windlass.api",
    "list_trials": "windlass.api",
    "create_experiment": "windlass.api",
    "get_experiment": "windlass.api",
    "list_experiments": "windlass.api",
    "create_workspace": "windlass.api",
    "get_workspace": "windlass.api",
    "list_workspaces": "windlass.api",
    "get_project": "windlass.api",
    "list_projects": "windlass.api",
    "start_trial": "windlass.api",
    "ExternalTrial": "windlass.client.external",
    "list_queue": "windlass.api",
    "QueueEntry": "windlass.client.queueing",
    "Task": "windlass.client.queueing",
    "get_metrics": "windlass.api",
    "create_model": "windlass.api",
    "get_model": "windlass.api",
    "list_models": "windlass.api",
    "create_template": "windlass.api",
    "get_template": "windlass.api",
    "list_templates": "windlass.api",
    "compare": "windlass.api",
    "run_command": "windlass.api",
    "get_command": "windlass.api",
    "list_commands": "windlass.api",
    "CommandRun": "windlass.client.commands",
    "open_shell": "windlass.api",
    "get_shell": "windlass.api",
    "list_shells": "windlass.api",
    "Shell": "windlass.client.shells",
    "search_logs": "windlass.api",
    "server_info": "windlass.api",
    "gc": "windlass.api",
    "accelerators": "windlass.model.accelerators",
    "AcceleratorKind": "windlass.model.accelerators",
    "Diff": "windlass.comparing.trials",
    "ExperimentDiff": "windlass.comparing.experiments",
    "Table": "windlass.comparing.tables",
    "Conflict": "windlass.model.errors",
    "ExperimentFailed": "windlass.model.errors",
    "InvalidArgument": "windlass.model.errors",
    "KubernetesError": "windlass.model.errors",
    "LaunchFailed": "windlass.model.errors",
    "NotFound": "windlass.model.errors",
    "RemoteError": "windlass.model.errors",
    "ResourceError": "windlass.model.errors",
    "SerializationError": "windlass.model.errors",
    "ServerError": "windlass.model.errors",
    "ServerUnreachable": "windlass.model.errors",
    "SnapshotError": "windlass.model.errors",
    "TrialFailed": "windlass.model.errors",
    "TrialStopped": "windlass.model.errors",
    "Unauthorized": "windlass.model.errors",
    "Unsupported": "windlass.model.errors",
    "VersionMismatch": "windlass.model.errors",
    "WaitTimeout": "windlass.model.errors",
    "WindlassError": "windlass.model.errors",
    "GarbageReport": "windlass.model.wire",
    "uniform": "windlass.search.spaces",
    "loguniform": "windlass.search.spaces",
    "randint": "windlass.search.spaces",
    "choice": "windlass.search.spaces",
    "SearchResult": "windlass.search.result",
    "rank": "windlass.worker.context",
    "world_size": "windlass.worker.context",
    "save_checkpoint": "windlass.worker.context",
    "latest_checkpoint": "windlass.worker.context",
    "should_stop": "windlass.worker.context",
    "current_trial": "windlass.worker.current",
    "CurrentTrial": "windlass.worker.current",
    "output_dir": "windlass.worker.outputs",
    "tensorboard_dir": "windlass.worker.outputs",
    "callbacks": "windlass.integrations",
    "profile": "windlass.integrations.profiling",
    "report": "windlass.worker.reporting",
    "report_progress": "windlass.worker.reporting",
}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> object:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")
    from importlib import import_module

    try:
        value = getattr(import_module(where), name)
    except ModuleNotFoundError:  # in a pod there is only what programs call inside a trial
        from windlass.client.away import stand_in

        value = stand_in(name)
        if value is None:
            raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
