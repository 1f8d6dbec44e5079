"""The public names exist, are documented, import quickly, and are visible to type checkers."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import windlass as wl
from harness import Project

API = "windlass.api"
NAMES = [name for name in wl.__all__ if name != "__version__"]
ERRORS = [
    value
    for value in (getattr(wl, name) for name in NAMES)
    if isinstance(value, type) and issubclass(value, BaseException)
]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_resolves_and_has_a_docstring(name: str) -> None:
    value = getattr(wl, name)
    own = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    assert own, f"wl.{name} has no docstring of its own"


@pytest.mark.parametrize(
    "kind",
    [wl.Function, wl.Trial, wl.Experiment, wl.Client, wl.LogLine, wl.Shell, wl.CommandRun],
)
def test_every_public_member_of_a_public_class_has_a_docstring(kind: type) -> None:
    members = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
    silent = [
        name
        for name, value in members.items()
        if (callable(value) or isinstance(value, (property, classmethod)))
        and not inspect.getdoc(value)
    ]
    assert members
    assert not silent


@pytest.mark.finding("U24")
def test_names_of_other_trackers_lead_to_the_names_of_windlass(project: Project) -> None:
    done = project.run(sys.executable, "-c", "import windlass as wl; wl.log_metric('loss', 1)")
    assert done.stderr.endswith(
        "AttributeError: module 'windlass' has no attribute 'log_metric'\n"
        '  To record metrics: wl.report(step, loss=0.5), or wl.report({"loss": 0.5})\n'
    )
    for name in ("log", "init", "start_run", "Run", "finish", "config", "log_artifact", "sweep"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'\n  .*(wl|train)\\."):
            getattr(wl, name)
    with pytest.raises(AttributeError, match=r"Did you mean wl\.list_trials\?$"):
        wl.list_trial  # noqa: B018  # type: ignore[attr-defined]
    assert not hasattr(wl, "__wrapped__")


def test_type_checkers_see_exactly_the_public_names() -> None:
    declared = _type_checking_imports()
    assert sorted(declared) == sorted(wl.__all__)
    for name, module in declared.items():
        assert getattr(importlib.import_module(module), name) is getattr(wl, name)


def test_the_functions_of_the_module_are_the_methods_of_the_client() -> None:
    """Except for the methods that only other parts of Windlass call."""
    methods = {name for name, _ in inspect.getmembers(wl.Client, inspect.isfunction)}
    public = {name for name in methods if not name.startswith("_")} - {"submit", "submit_all"}
    functions = {name for name, module in _type_checking_imports().items() if module == API}
    assert public == functions
    for name in functions:
        function, method = getattr(wl, name), getattr(wl.Client, name)
        assert function.__doc__ == method.__doc__
        own = list(inspect.signature(method).parameters.values())[1:]
        assert list(inspect.signature(function).parameters.values()) == own


def test_dir_lists_each_public_name_once() -> None:
    assert dir(wl) == sorted(wl.__all__)
    assert len(set(wl.__all__)) == len(wl.__all__)


def test_an_unknown_name_is_an_attribute_error_with_that_name() -> None:
    with pytest.raises(AttributeError, match="module 'windlass' has no attribute 'trian'"):
        _ = wl.trian  # type: ignore[attr-defined]


def test_importing_windlass_loads_nothing_heavy() -> None:
    heavy = {"msgspec", "click", "sqlite3", "cloudpickle", "uvicorn", "rich"}
    loaded = _modules_after("import windlass")
    assert not heavy & loaded
    assert {name for name in loaded if name.startswith("windlass.")} == set()


@pytest.mark.parametrize("code", ["from windlass import run", "import windlass as wl; wl.run(len)"])
def test_importing_the_decorator_loads_no_large_module(code: str) -> None:
    loaded = _modules_after(code)
    assert "windlass.authoring.public.run_decorator" in loaded
    # Each of these takes as long as the start of Python.
    assert not {"typing", "inspect", "dataclasses"} & loaded


def test_decorating_a_function_loads_no_server_or_command_line_code() -> None:
    code = (
        "import windlass as wl\n"
        "wl.run(accelerator='a100', cpus=2, memory='1GB', timeout='4h', retries=1)(lambda x: x)"
    )
    # A trial imports the module of its function, and so decorates it. This must not need msgspec.
    heavy = {
        "msgspec",
        "cloudpickle",
        "click",
        "sqlite3",
        "uvicorn",
        "rich",
        "psutil",
    }
    loaded = _modules_after(code)
    assert "windlass.authoring.public.run_decorator" in loaded
    assert not heavy & loaded
    assert not [name for name in loaded if name.startswith(("windlass.server", "windlass.cli"))]


def test_importing_a_function_again_in_a_trial_loads_as_little() -> None:
    code = (
        "import os\nos.environ['WINDLASS_TRIAL_ID'] = '1'\nimport windlass as wl\n"
        "wl.run(replicas=2, framework='torch')(lambda x: x)\n"
        "job = wl.Job(wl.PythonScript('train.py'), executor=wl.Local(cpus=2), framework='jax')\n"
        "wl.JobGroup(worker=wl.Job(wl.PythonFunction(len)), chief=wl.Job(wl.Command(['ls'])))\n"
    )
    loaded = _modules_after(code)
    assert "windlass.authoring.public.jobs" in loaded
    assert not {"msgspec", "windlass.frameworks", "windlass.authoring.prepare.draft"} & loaded


def test_a_submission_loads_only_the_modules_it_needs() -> None:
    loaded = _modules_after(
        "import windlass.authoring.prepare.draft, windlass.client.terminal.watch_trial"
    )
    assert "windlass.client.connection.transport" in loaded
    assert not {"asyncio", "click", "psutil", "importlib.metadata"} & loaded


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_is_a_windlass_error_and_survives_pickling(kind: type) -> None:
    assert issubclass(kind, wl.WindlassError)
    error = kind("It broke.", hint="Fix it.\nThen try again.")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert again.args == error.args
        assert vars(again) == vars(error)
        assert str(again) == str(error) == "It broke.\n  Fix it.\n  Then try again."


def test_the_fields_of_an_error_survive_pickling() -> None:
    failed = wl.TrialFailed("It died.", trial_id=3, exit_code=137, signal="SIGKILL", log_tail=["x"])
    remote = wl.RemoteError("E: no", type_name="E", text="no", traceback="Traceback ...")
    for error in (failed, remote):
        assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


def test_errors_can_be_caught_as_built_in_exceptions() -> None:
    assert issubclass(wl.InvalidArgument, ValueError)
    assert issubclass(wl.NotFound, LookupError)
    assert issubclass(wl.WaitTimeout, TimeoutError)
    assert issubclass(wl.SerializationError, TypeError)
    assert issubclass(wl.TrialStopped, wl.TrialFailed)
    assert issubclass(wl.ResourceError, wl.InvalidArgument)


def _type_checking_imports() -> dict[str, str]:
    """The module that each name is imported from under `if TYPE_CHECKING`."""
    tree = ast.parse(inspect.getsource(wl))
    [block] = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        alias.asname or alias.name: node.module or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter loads for some code, besides those of its start."""
    script = (
        f"import sys, json\nbefore = set(sys.modules)\n{code}\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout))


def test_the_examples_in_docstrings_run(project: Project, home: Path) -> None:
    """Fenced examples. Examples with prompts run as doctests."""
    blocks = {
        name: re.findall(r"```python\n(.*?)```", inspect.getdoc(thing) or "", re.DOTALL)
        for name, thing in {"windlass": wl, **{n: getattr(wl, n) for n in wl.__all__}}.items()
    }
    examples = {name: block for name, block in blocks.items() if block}
    assert {"windlass", "run", "Trial", "Experiment", "Client", "get_trial"} <= set(examples)
    assert {"Job", "JobGroup", "PythonScript", "PythonModule", "PythonFunction"} <= set(examples)
    assert {"Command", "Local"} <= set(examples)
    project.write(
        "examples.py",
        """
        import json, sys
        import windlass as wl

        @wl.run
        def train(lr):
            with open("model.txt", "w") as file:
                file.write(str(lr))
            wl.report(1, loss=lr)
            wl.save_checkpoint("model.txt", step=1)
            return 1 - lr

        list(train.map([0.1, 0.2, 0.3]))
        for name, blocks in json.load(open("examples.json")).items():
            for block in blocks:
                try:
                    exec(compile(block, name, "exec"), {"wl": wl, "train": train})
                except Exception as error:
                    sys.exit(f"{name}: {error!r}")
        """,
    )
    project.write("examples.json", json.dumps(examples))
    done = project.python("examples.py")
    assert done.returncode == 0, done.stderr
