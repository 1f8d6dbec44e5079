"""The functions of the module `windlass`, which call the methods of the default `wl.Client`.

Each function has the signature, docstring and types of the method that it calls.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from windlass.client.client import Client, default_client

P = ParamSpec("P")
R = TypeVar("R")


def _of_default_client(method: Callable[Concatenate[Client, P], R]) -> Callable[P, R]:
    @functools.wraps(method)
    def function(*args: P.args, **kwargs: P.kwargs) -> R:
        return method(default_client(), *args, **kwargs)

    _, *parameters = inspect.signature(method).parameters.values()
    # The type checker does not know that a function may have a signature.
    function.__signature__ = inspect.signature(method).replace(  # type: ignore[attr-defined]
        parameters=parameters
    )
    function.__module__, function.__qualname__ = "windlass", method.__name__
    return function


get_trial = _of_default_client(Client.get_trial)
list_trials = _of_default_client(Client.list_trials)
get_metrics = _of_default_client(Client.get_metrics)
compare = _of_default_client(Client.compare)
create_experiment = _of_default_client(Client.create_experiment)
get_experiment = _of_default_client(Client.get_experiment)
list_experiments = _of_default_client(Client.list_experiments)
create_workspace = _of_default_client(Client.create_workspace)
get_workspace = _of_default_client(Client.get_workspace)
list_workspaces = _of_default_client(Client.list_workspaces)
get_project = _of_default_client(Client.get_project)
list_projects = _of_default_client(Client.list_projects)
get_checkpoint = _of_default_client(Client.get_checkpoint)
list_checkpoints = _of_default_client(Client.list_checkpoints)
start_trial = _of_default_client(Client.start_trial)
list_queue = _of_default_client(Client.list_queue)
create_model = _of_default_client(Client.create_model)
get_model = _of_default_client(Client.get_model)
list_models = _of_default_client(Client.list_models)
create_template = _of_default_client(Client.create_template)
get_template = _of_default_client(Client.get_template)
list_templates = _of_default_client(Client.list_templates)
run_command = _of_default_client(Client.run_command)
get_command = _of_default_client(Client.get_command)
list_commands = _of_default_client(Client.list_commands)
open_shell = _of_default_client(Client.open_shell)
get_shell = _of_default_client(Client.get_shell)
list_shells = _of_default_client(Client.list_shells)
search_logs = _of_default_client(Client.search_logs)
package = _of_default_client(Client.package)
gc = _of_default_client(Client.gc)
server_info = _of_default_client(Client.server_info)
