"""The reference has every public name, and every example in its docstrings runs."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import Project

ROOT = Path(__file__).parent.parent

# Examples that cannot run by themselves, and why.
NOT_RUN = {
    "Trial.scale": "three ways for trials of different roles",
    "Shell.attach": "it takes a terminal",
    "TokenAuthentication.login": "it takes a cluster",
    "TokenAuthentication.logout": "as one who logged in",
    "KubeConfigFileAuthentication.load_config": "it takes a cluster",
    "KubeConfigFileAuthentication.logout": "as one who logged in",
    "Checkpoint.delete": "a model version uses that one by then",
}
LIVE = {"Trial.suspend", "Trial.set_priority", "Trial.move_ahead_of"}  # its trial continues


# Names whose examples share a home. All other examples share a second home.
PARTS = [("Trial",), ("Experiment",), ("Model", "ModelVersion")]


def test_the_reference_has_every_public_name_once() -> None:
    page = (ROOT / "docs" / "reference" / "sdk.md").read_text()
    headings = re.findall(r"^      heading: wl\.(\w+)$", page, re.MULTILINE)
    assert sorted(headings) == sorted(name for name in wl.__all__ if name != "__version__")


def members(kind: type) -> dict[str, Any]:
    """The documented public properties and methods of a class, without those of other public ones.

    Members of private base classes count as members of the class.
    """
    public_bases = [base for base in kind.__mro__[1:] if getattr(wl, base.__name__, None) is base]
    elsewhere = {ancestor for base in public_bases for ancestor in base.__mro__}
    objects: dict[str, Any] = {}
    for base in kind.__mro__:
        if base in elsewhere or not base.__module__.startswith("windlass"):
            continue
        for name, value in vars(base).items():
            is_member = isinstance(value, property | classmethod | staticmethod)
            if not name.startswith("_") and (is_member or inspect.isfunction(value)):
                objects.setdefault(name, value)
    return {name: value for name, value in objects.items() if inspect.getdoc(value)}


def examples() -> dict[str, list[str]]:
    """The fenced examples of all members of the public classes, by class."""
    code_blocks: dict[str, list[str]] = {}
    for name in wl.__all__:
        thing = getattr(wl, name)
        if not isinstance(thing, type) or issubclass(thing, BaseException) or thing is wl.Client:
            continue  # the methods of the client are the functions
        for member, value in members(thing).items():
            blocks = re.findall(r"```python\n(.*?)```", inspect.getdoc(value) or "", re.DOTALL)
            if blocks and f"{name}.{member}" not in NOT_RUN:
                code_blocks[f"{name}.{member}"] = blocks
    return code_blocks


@pytest.mark.thorough
@pytest.mark.parametrize("kinds", [*PARTS, ()], ids="-".join)
def test_the_examples_of_class_members_run(
    project: Project, home: Path, kinds: tuple[str, ...]
) -> None:
    """Each example has a trial and an experiment.

    `test_public_names` runs examples of functions.
    """
    apart = {kind for part in PARTS for kind in part}
    blocks_of_name = {
        whose: blocks
        for whose, blocks in examples().items()
        if (whose.partition(".")[0] in kinds if kinds else whose.partition(".")[0] not in apart)
    }
    assert blocks_of_name
    project.write(
        "examples.py",
        """
        import asyncio, json, sys
        import windlass as wl

        NAMES = ("train", "sweep", "tuning", "cifar10", "cifar10-deeper")


        @wl.run(cpus=0.1, experiment="train")
        def train(lr, layers=2):
            for step in range(3):
                wl.report(step, loss=lr / (step + 1))
                wl.report(step, group="validation", loss=lr / (step + 1))
            folder = wl.output_dir() / "model"
            folder.mkdir(exist_ok=True)
            (folder / "weights").write_text(str(lr))
            wl.save_checkpoint(folder, step=step)
            return 1 - lr


        def experiment_of(name):
            '''The one of that name: an example may have made another, or deleted it.'''
            there = list(wl.list_experiments(name=name, archived=None, sort_by="-id"))
            at_hand = (each for each in there if not each.archived and each.project == "default")
            first = next(at_hand, None)
            for each in there:
                if each is not first:
                    each.set_name(f"{name} ({each.id})")
            if first is None:
                first = wl.create_experiment(name)
                first.add(train, args={"lr": 0.1}).wait()
            return first.refresh()


        def trial_of(whose):
            if whose in json.load(open("live.json")):
                return wl.Job(wl.Command(["sleep", "600"]), executor=wl.Local(cpus=0.1)).submit()
            if whose == "Trial.logs":
                worker = wl.Job(wl.Command(["echo", "hello"]), executor=wl.Local(cpus=0.1))
                return wl.JobGroup(worker=worker, chief=worker).submit().wait()
            return train.submit(0.1).wait()


        def try_out(whose, block):
            exp = [experiment_of(name) for name in NAMES if name in block or name == "train"][0]
            trial = trial_of(whose)
            given = {"wl": wl, "train": train, "trial": trial, "exp": exp, "experiment": exp,
                     "job": wl.Job(wl.Command(["echo"])), "asyncio": asyncio,
                     "__file__": __file__}
            if whose.startswith("SearchResult."):
                space = {"lr": wl.uniform(0, 1), "layers": wl.choice(2, 4)}
                given["found"] = exp.search(train, space=space, metric="loss", trials=4)
            try:
                exec(compile(block, whose, "exec"), given)
            except BaseException as error:
                return f"{whose}: {error!r}"
            finally:
                if not trial.refresh().is_finished:
                    trial.stop(grace=0)


        if __name__ == "__main__":
            list(train.map([0.1, 0.2, 0.3]))
            told = json.load(open("examples.json"))
            wrong = [try_out(name, block) for name, blocks in told.items() for block in blocks]
            sys.exit("\\n".join(filter(None, wrong)) or 0)
        """,
    )
    project.write("examples.json", json.dumps(blocks_of_name))
    project.write("live.json", json.dumps(sorted(LIVE)))
    done = project.python("examples.py")
    assert done.returncode == 0, done.stderr
