"""The server dies before or after any write of renaming, moving and registering objects."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos_seed import Chaos

import windlass as wl
from harness import PATIENCE, Project, stop_server
from server_with_faults import start_rigged

pytestmark = pytest.mark.thorough

FEWEST_STEPS = 60

AUTHOR = """
import windlass as wl


@wl.run(cpus=0.1)
def train(step):
    open("model.txt", "w").write(str(step))
    wl.save_checkpoint("model.txt", step=step)


lab = wl.create_workspace("lab", "First.").set_name("hall").set_description("Second.")
project = lab.create_project("vision").set_name("sight")
other = lab.create_project("sound")
other.archive().unarchive()
exp = wl.create_experiment("sweep", project="hall/sight").set_name("search")
exp.move_to(other).set_priority(3)
template = wl.create_template("small", cpus=0.1, labels=["tiny"])
trials = [exp.add(train.options(template="small"), args={"step": n}).wait() for n in (1, 2)]
trials[0].set_name("first").set_notes("Noted.").set_description("Described.")
template.set_fields(cpus=0.2)
model = wl.create_model("net", labels=["a"]).set_name("network").add_metadata(size=3)
for trial in trials:
    [checkpoint] = trial.list_checkpoints()
    version = model.register_version(checkpoint, name=f"of {trial.id}")
    model.set_alias("production", version)
model.get_version(2).set_notes("Good.").add_label("kept")
model.get_version(1).delete()
model.move_to(project)
gone = wl.create_model("gone")
gone.delete()
wl.create_workspace("empty").delete()
project.move_to("default")
exp.archive()
lab.create_project("nothing").delete()
"""


def test_a_server_killed_at_any_write_completes_each_change_once(
    tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch, chaos: Chaos
) -> None:
    project.write("author.py", AUTHOR)
    for step in _steps(chaos):
        home = tmp_path / f"home-{step}"
        monkeypatch.setenv("WINDLASS_HOME", str(home))
        server = start_rigged(home, f"die-writing:{step}")
        try:
            done = project.python("author.py")
            assert done.returncode == 0, (step, done.stderr)
            _check(step)
            was_killed = server.poll() is not None
        finally:
            stop_server(home)
            server.wait(PATIENCE)
        if not was_killed:
            break  # fewer steps than this number: all of them were tried
    assert was_killed or step > FEWEST_STEPS


def _check(step: int) -> None:
    """Check that every change was made once."""
    assert [workspace.name for workspace in wl.list_workspaces()] == ["default", "hall"], step
    places = {project.place: project for project in wl.list_projects()}
    assert sorted(places) == ["default", "hall/sound", "sight"], step
    assert wl.get_workspace("hall").description == "Second.", step
    [exp] = wl.list_experiments(archived=None)
    assert (exp.name, exp.project, exp.priority, exp.archived) == (
        "search", "hall/sound", 3, True,
    ), step  # fmt: skip
    first, second = exp.list_trials()
    assert (first.name, first.notes, first.description) == ("first", "Noted.", "Described."), step
    for trial in (first, second):
        assert (trial.state, trial.template, trial.labels) == (
            "SUCCEEDED", "small", ("tiny",),
        ), step  # fmt: skip
        assert (trial.resources.cpus, trial.priority, trial.project) == (0.1, 3, "hall/sound"), step
    [template] = wl.list_templates()
    assert template.fields == {"cpus": 0.2}, step
    [model] = wl.list_models(archived=None)
    assert (model.name, model.project, model.metadata) == ("network", "sight", {"size": 3}), step
    assert (model.aliases, model.versions, model.labels) == ({"production": 2}, 1, ("a",)), step
    [version] = model.list_versions()
    assert (version.version, version.notes, version.labels) == (2, "Good.", ("kept",)), step
    [unused] = first.list_checkpoints()
    unused.delete()  # its version is gone
    with pytest.raises(wl.Conflict):
        version.checkpoint.delete()


def _steps(chaos: Chaos) -> Iterator[int]:
    """Return all steps in long runs, some of them in short runs."""
    if chaos.long:
        return itertools.count(1)
    return iter(sorted(chaos.random.sample(range(1, FEWEST_STEPS + 1), 4)))
