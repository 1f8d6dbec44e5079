"""The reference is what the docstrings say, and every example in it runs."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import json
import re
from pathlib import Path
from types import ModuleType

import windlass as wl
from harness import Project

ROOT = Path(__file__).parent.parent

# Those that cannot be run by themselves, and why.
NOT_RUN = {
    "Client": "asks another machine",
    "Experiment.__aenter__": "a part of an async function",
}


def reference() -> ModuleType:
    """The tool, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_docstrings_say() -> None:
    there, now = (ROOT / "docs" / "sdk.md").read_text(), reference().page()
    changed = list(difflib.unified_diff(there.splitlines(), now.splitlines(), n=0, lineterm=""))
    assert there == now, "\n".join(["docs/sdk.md is old. Write it anew: make docs", *changed[:40]])


def test_the_reference_has_every_public_name_once() -> None:
    titles = re.findall(r"^### wl\.(\w+)$", (ROOT / "docs" / "sdk.md").read_text(), re.MULTILINE)
    assert sorted(titles) == sorted(name for name in wl.__all__ if name != "__version__")


def examples() -> dict[str, list[str]]:
    """The fenced examples of all members of the public classes, by whose they are."""
    members = reference()._members
    found: dict[str, list[str]] = {}
    for name in wl.__all__:
        thing = getattr(wl, name)
        if not isinstance(thing, type) or issubclass(thing, BaseException) or thing is wl.Client:
            continue  # the methods of the client are the functions
        properties, methods = members(thing)
        for member, value in (*properties, *methods):
            blocks = re.findall(r"```python\n(.*?)```", inspect.getdoc(value) or "", re.DOTALL)
            if blocks and f"{name}.{member}" not in NOT_RUN:
                found[f"{name}.{member}"] = blocks
    return found


def test_the_examples_of_the_members_run(project: Project, home: Path) -> None:
    """Each with a trial and an experiment at hand; those of the names are run elsewhere."""
    told = examples()
    assert {"Trial.hparams", "Experiment.list_trials", "Trial.logs"} <= set(told)
    project.write(
        "examples.py",
        """
        import asyncio, json, os, sys
        import windlass as wl


        @wl.run(cpus=0.1)
        def train(lr, layers=2):
            for step in range(3):
                wl.report(step, loss=lr / (step + 1))
            return 1 - lr


        def fresh():
            trial = train.submit(0.1).wait()
            exp = wl.get_experiment("train")
            job = wl.Job(wl.Command(["echo"]))
            return {"wl": wl, "train": train, "trial": trial, "exp": exp, "experiment": exp,
                    "job": job, "asyncio": asyncio}


        if __name__ == "__main__":
            list(train.map([0.1, 0.2, 0.3]))
            for name in ("sweep", "tuning", "cifar10", "cifar10-deeper"):
                exp = wl.create_experiment(name)
                exp.add(train, args={"lr": 0.1}).wait()
            failed = []
            for name, blocks in json.load(open("examples.json")).items():
                for block in blocks:
                    try:
                        exec(compile(block, name, "exec"), fresh())
                    except BaseException as error:
                        failed.append(f"{name}: {error!r}")
            sys.exit("\\n".join(failed))
        """,
    )
    project.write("examples.json", json.dumps(told))
    done = project.python("examples.py")
    assert done.returncode == 0, done.stderr
