"""Windlass runs and records training code, from a function on a laptop to a job on a hundred hosts.

```python
import windlass as wl


@wl.run
def train(lr):
    return 1 - lr


accuracy = train(0.1)
```

Every public name is loaded on first use, so importing this package costs next to nothing.
"""

TYPE_CHECKING = False  # as type checkers see it; importing typing takes longer than this whole file
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
    from windlass.authoring.public.authentication import (
        KubeConfigFileAuthentication as KubeConfigFileAuthentication,
    )
    from windlass.authoring.public.authentication import TokenAuthentication as TokenAuthentication
    from windlass.authoring.public.executables import Command as Command
    from windlass.authoring.public.executables import Container as Container
    from windlass.authoring.public.executables import PythonFunction as PythonFunction
    from windlass.authoring.public.executables import PythonModule as PythonModule
    from windlass.authoring.public.executables import PythonScript as PythonScript
    from windlass.authoring.public.executables import Raw as Raw
    from windlass.authoring.public.executors import Kubernetes as Kubernetes
    from windlass.authoring.public.executors import Local as Local
    from windlass.authoring.public.executors import Ray as Ray
    from windlass.authoring.public.jobs import Job as Job
    from windlass.authoring.public.jobs import JobGroup as JobGroup
    from windlass.authoring.public.packaged import Packaged as Packaged
    from windlass.authoring.public.run_decorator import Function as Function
    from windlass.authoring.public.run_decorator import run as run
    from windlass.client.client import Client as Client
    from windlass.client.resources.checkpoint import Checkpoint as Checkpoint
    from windlass.client.resources.command import CommandRun as CommandRun
    from windlass.client.resources.experiment.experiment import Experiment as Experiment
    from windlass.client.resources.model import Model as Model
    from windlass.client.resources.model import ModelVersion as ModelVersion
    from windlass.client.resources.shell import Shell as Shell
    from windlass.client.resources.template import Template as Template
    from windlass.client.resources.trial.curves import Curve as Curve
    from windlass.client.resources.trial.external import ExternalTrial as ExternalTrial
    from windlass.client.resources.trial.logs.lines import LogLine as LogLine
    from windlass.client.resources.trial.logs.lines import LogLines as LogLines
    from windlass.client.resources.trial.metrics import Metrics as Metrics
    from windlass.client.resources.trial.metrics import Point as Point
    from windlass.client.resources.trial.queue import QueueEntry as QueueEntry
    from windlass.client.resources.trial.queue import Task as Task
    from windlass.client.resources.trial.trial import Trial as Trial
    from windlass.client.resources.workspace import Project as Project
    from windlass.client.resources.workspace import Workspace as Workspace
    from windlass.comparison.experiments import ExperimentDiff as ExperimentDiff
    from windlass.comparison.tables import Table as Table
    from windlass.comparison.trials import Diff as Diff
    from windlass.integrations import callbacks as callbacks
    from windlass.integrations.profiling import profile as profile
    from windlass.model.errors import Conflict as Conflict
    from windlass.model.errors import Deadlock as Deadlock
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
    from windlass.model.hardware.accelerators import AcceleratorKind as AcceleratorKind
    from windlass.model.hardware.accelerators import accelerators as accelerators
    from windlass.model.requests import GarbageReport as GarbageReport
    from windlass.search.result import SearchResult as SearchResult
    from windlass.search.spaces import choice as choice
    from windlass.search.spaces import loguniform as loguniform
    from windlass.search.spaces import randint as randint
    from windlass.search.spaces import uniform as uniform
    from windlass.version import __version__ as __version__
    from windlass.worker.program.context import latest_checkpoint as latest_checkpoint
    from windlass.worker.program.context import rank as rank
    from windlass.worker.program.context import save_checkpoint as save_checkpoint
    from windlass.worker.program.context import should_stop as should_stop
    from windlass.worker.program.context import world_size as world_size
    from windlass.worker.program.current_trial import CurrentTrial as CurrentTrial
    from windlass.worker.program.current_trial import current_trial as current_trial
    from windlass.worker.program.output_dir import output_dir as output_dir
    from windlass.worker.program.output_dir import tensorboard_dir as tensorboard_dir
    from windlass.worker.program.report import report as report
    from windlass.worker.program.report import report_progress as report_progress

_WHERE = {
    "__version__": "windlass.version",
    "run": "windlass.authoring.public.run_decorator",
    "Function": "windlass.authoring.public.run_decorator",
    "Job": "windlass.authoring.public.jobs",
    "JobGroup": "windlass.authoring.public.jobs",
    "PythonScript": "windlass.authoring.public.executables",
    "PythonModule": "windlass.authoring.public.executables",
    "PythonFunction": "windlass.authoring.public.executables",
    "Command": "windlass.authoring.public.executables",
    "Container": "windlass.authoring.public.executables",
    "Raw": "windlass.authoring.public.executables",
    "Packaged": "windlass.authoring.public.packaged",
    "package": "windlass.api",
    "Local": "windlass.authoring.public.executors",
    "Kubernetes": "windlass.authoring.public.executors",
    "Ray": "windlass.authoring.public.executors",
    "TokenAuthentication": "windlass.authoring.public.authentication",
    "KubeConfigFileAuthentication": "windlass.authoring.public.authentication",
    "Client": "windlass.client.client",
    "Trial": "windlass.client.resources.trial.trial",
    "Experiment": "windlass.client.resources.experiment.experiment",
    "Workspace": "windlass.client.resources.workspace",
    "Project": "windlass.client.resources.workspace",
    "Model": "windlass.client.resources.model",
    "ModelVersion": "windlass.client.resources.model",
    "Template": "windlass.client.resources.template",
    "LogLine": "windlass.client.resources.trial.logs.lines",
    "Curve": "windlass.client.resources.trial.curves",
    "Metrics": "windlass.client.resources.trial.metrics",
    "LogLines": "windlass.client.resources.trial.logs.lines",
    "Point": "windlass.client.resources.trial.metrics",
    "Checkpoint": "windlass.client.resources.checkpoint",
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
    "ExternalTrial": "windlass.client.resources.trial.external",
    "list_queue": "windlass.api",
    "QueueEntry": "windlass.client.resources.trial.queue",
    "Task": "windlass.client.resources.trial.queue",
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
    "CommandRun": "windlass.client.resources.command",
    "open_shell": "windlass.api",
    "get_shell": "windlass.api",
    "list_shells": "windlass.api",
    "Shell": "windlass.client.resources.shell",
    "search_logs": "windlass.api",
    "server_info": "windlass.api",
    "gc": "windlass.api",
    "accelerators": "windlass.model.hardware.accelerators",
    "AcceleratorKind": "windlass.model.hardware.accelerators",
    "Diff": "windlass.comparison.trials",
    "ExperimentDiff": "windlass.comparison.experiments",
    "Table": "windlass.comparison.tables",
    "Conflict": "windlass.model.errors",
    "Deadlock": "windlass.model.errors",
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
    "GarbageReport": "windlass.model.requests",
    "uniform": "windlass.search.spaces",
    "loguniform": "windlass.search.spaces",
    "randint": "windlass.search.spaces",
    "choice": "windlass.search.spaces",
    "SearchResult": "windlass.search.result",
    "rank": "windlass.worker.program.context",
    "world_size": "windlass.worker.program.context",
    "save_checkpoint": "windlass.worker.program.context",
    "latest_checkpoint": "windlass.worker.program.context",
    "should_stop": "windlass.worker.program.context",
    "current_trial": "windlass.worker.program.current_trial",
    "CurrentTrial": "windlass.worker.program.current_trial",
    "output_dir": "windlass.worker.program.output_dir",
    "tensorboard_dir": "windlass.worker.program.output_dir",
    "callbacks": "windlass.integrations",
    "profile": "windlass.integrations.profiling",
    "report": "windlass.worker.program.report",
    "report_progress": "windlass.worker.program.report",
}

__all__ = [*_WHERE]


def __getattr__(name: str) -> object:
    where = _WHERE.get(name)
    if where is None:
        if name.startswith("_"):  # tools probe for such names
            raise AttributeError(f"module 'windlass' has no attribute {name!r}")
        from windlass.unknown_names import describe_unknown

        # With obj=None, Python does not append a suggestion of its own.
        raise AttributeError(describe_unknown(name, __all__), name=name, obj=None)
    from importlib import import_module

    try:
        value = getattr(import_module(where), name)
    except ModuleNotFoundError:  # a pod has only the packages that programs need inside a trial
        from windlass.client.connection.in_pod import stand_in

        value = stand_in(name)
        if value is None:
            raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
