"""The model registry: versions, aliases, labels and metadata, and the effect of deletions."""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from checkpoint_functions import save_unique

import windlass as wl
from harness import PATIENCE, Project
from server_requests import API, Server

SHARES_HOME = True


def unique(what: str = "net") -> str:
    """Return a unique name."""
    return f"{what}-{uuid.uuid4().hex[:8]}"


def checkpoints(count: int) -> list[wl.Checkpoint]:
    """New checkpoints of one trial."""
    trial = save_unique.submit(count)
    uids = trial.result(timeout=PATIENCE)
    return [wl.get_checkpoint(str(uid)) for uid in uids]


def test_versions_are_numbered_from_one_and_found_by_number_alias_or_latest(
    home: Path, tmp_path: Path
) -> None:
    first, second = checkpoints(2)
    model = wl.create_model(unique(), description="Cats or dogs.", labels=["paper"])
    assert (model.versions, model.latest, model.aliases, model.project) == (0, None, {}, "default")
    one = model.register_version(first, name="baseline", notes="The first.", labels=["old"])
    two = model.register_version(second.id, metadata={"accuracy": 0.9})
    assert (one.version, two.version, model.versions, model.latest) == (1, 2, 2, 2)
    model.set_alias("production", one)
    assert (model.aliases, model.get_version("production").version) == ({"production": 1}, 1)
    model.set_alias("production", 2).set_alias("candidate", 2)
    again = wl.get_model(model.name)
    assert again.aliases == {"candidate": 2, "production": 2}
    assert again.get_version("production").aliases == ("candidate", "production")
    assert again.get_version().version == again.get_version(2).version == 2
    assert again.get_version("1").name == "baseline"
    version = again.get_version("production")
    assert (version.checkpoint, version.trial_id, version.step) == (second, second.trial_id, 2)
    assert (version.metadata, version.labels, version.model) == ({"accuracy": 0.9}, (), model.name)
    assert version.trial.id == second.trial_id
    path = version.download(tmp_path / "production")
    assert path.read_text().startswith("weights of step 2")
    assert [version.version for version in model.list_versions(sort_by="-version")] == [2, 1]
    assert [version.version for version in model.list_versions(labels="old")] == [1]
    model.remove_alias("candidate").remove_alias("candidate")
    assert wl.get_model(model.id).aliases == {"production": 2}


def test_repeated_registrations_of_a_checkpoint_are_one_version(home: Path) -> None:
    [checkpoint] = checkpoints(1)
    model, other = wl.create_model(unique()), wl.create_model(unique())
    one = model.register_version(checkpoint, name="as it was")
    again = model.register_version(checkpoint.uid, name="another")
    assert (again.version, again.name, model.versions) == (one.version, "as it was", 1)
    assert other.register_version(checkpoint).version == 1


def test_a_trial_registers_its_own_checkpoint(home: Path) -> None:
    model = wl.create_model(unique())
    save_unique.submit(2, register=model.name).result(timeout=PATIENCE)
    version = model.get_version()
    assert (version.version, version.labels, version.step) == (1, ("by itself",), 2)


def test_metadata_of_models_and_versions_changes_field_by_field(home: Path) -> None:
    [checkpoint] = checkpoints(1)
    model = wl.create_model(unique(), metadata={"task": "vision"})
    model.add_label("paper", "draft").remove_label("draft").set_notes("Good.").set_description("D")
    model.add_metadata(size=3, layers=(64, 32)).remove_metadata("task", "never")
    again = wl.get_model(model.id)
    assert (again.labels, again.notes, again.description) == (("paper",), "Good.", "D")
    assert again.metadata == {"size": 3, "layers": [64, 32]}
    version = model.register_version(checkpoint)
    version.set_name("best").set_notes("Of all.").set_labels(["a", "b"]).add_metadata(f1=0.5)
    model_version = model.get_version(1)
    assert (model_version.name, model_version.notes, model_version.labels) == (
        "best",
        "Of all.",
        ("a", "b"),
    )
    assert model_version.metadata == {"f1": 0.5}
    assert version.set_name("").refresh().name == ""
    assert [listed.id for listed in wl.list_models(labels="paper", name=model.name)] == [model.id]
    for record in (model, version):
        assert pickle.loads(pickle.dumps(record)).refresh().record == record.refresh().record
    assert repr(model) == f"<Model {model.name}: 1 version>"
    assert repr(version) == f"<ModelVersion {model.name} 1: checkpoint {checkpoint.id}>"


def test_models_belong_to_projects_and_can_be_renamed_moved_and_archived(home: Path) -> None:
    [checkpoint] = checkpoints(1)
    place = unique("vision")
    model = wl.create_model(unique(), project=place)
    project = wl.get_project(place)
    assert (model.project, project.model_count) == (place, 1)
    with pytest.raises(wl.Conflict, match=r"contains 1 model, so it cannot be deleted"):
        project.delete()
    assert [model.id for model in wl.list_models(project=place)] == [model.id]
    assert model.move_to("default").project == "default"
    assert model.move_to(project).project == place
    with pytest.raises(wl.Conflict, match=r"A model .* already exists"):
        wl.create_model(model.name)
    assert wl.create_model(model.name, exist_ok=True).id == model.id
    name = model.name
    assert wl.get_model(model.set_name(unique("other")).name).id == model.id
    assert wl.create_model(name).id != model.id, "the name is free again"
    model.archive()
    assert model.id not in [model.id for model in wl.list_models()]
    assert model.id in [model.id for model in wl.list_models(archived=True)]
    with pytest.raises(wl.Conflict, match="is archived, so no version can be registered"):
        model.register_version(checkpoint)
    model.unarchive()
    project.archive()
    assert model.id not in [model.id for model in wl.list_models()]
    assert model.id in [model.id for model in wl.list_models(archived=None)]


def test_a_checkpoint_of_a_version_cannot_be_deleted_before_the_version(home: Path) -> None:
    first, second = checkpoints(2)
    model = wl.create_model(unique())
    one, two = model.register_version(first), model.register_version(second)
    model.set_alias("production", 2)
    with pytest.raises(wl.Conflict, match="cannot be deleted: it is version 1 of the model"):
        first.delete()
    with pytest.raises(wl.Conflict, match="it is version 1 of the model"):
        first.trial.delete()
    with pytest.raises(wl.Conflict, match=r"Version 2 is 'production', so it cannot be deleted"):
        two.delete()
    one.delete()
    one.delete()  # as after a lost response
    first.delete()
    with pytest.raises(wl.NotFound, match=r"has no version 1\.\n  The latest is 2, 'production'"):
        model.get_version(1)
    model.remove_alias("production")
    two.delete()
    assert (model.refresh().versions, model.latest) == (0, None)
    assert model.register_version(second).version == 3, "no number is given twice"
    model.delete()
    model.delete()
    with pytest.raises(wl.NotFound, match="no model"):
        model.refresh()
    second.delete()
    with pytest.raises(wl.NotFound):
        second.refresh()


def test_a_missing_model_or_version_raises_not_found_with_a_suggestion(home: Path) -> None:
    [checkpoint] = checkpoints(1)
    model = wl.create_model(unique("classifier"))
    with pytest.raises(wl.NotFound, match=f"Did you mean '{model.name}'"):
        wl.get_model(model.name.replace("classifier", "clasifier"))
    with pytest.raises(wl.NotFound, match=r"has no version 'latest'.*\n.*register_version"):
        model.get_version()
    with pytest.raises(wl.NotFound, match="no checkpoint 999999"):
        model.register_version(999_999)
    model.register_version(checkpoint)
    with pytest.raises(wl.NotFound, match="has no version 7"):
        model.set_alias("production", 7)
    with pytest.raises(wl.NotFound, match="has no version 'prod'"):
        model.get_version("prod")
    assert wl.get_model(model.name).aliases == {}


@pytest.mark.parametrize("alias", ["", "latest", "12", "a\nb", " x", "x" * 201, None, 3])
def test_invalid_aliases_are_refused_with_the_rule(home: Path, alias: str) -> None:
    model = wl.create_model(unique())
    with pytest.raises(wl.InvalidArgument, match="alias"):
        model.set_alias(alias, 1)


def test_invalid_input_is_refused_and_nothing_changes(home: Path) -> None:
    model = wl.create_model(unique())
    for refused in (
        lambda: wl.create_model(""),
        lambda: wl.create_model("a\nb"),
        lambda: wl.create_model(unique(), labels=["two\nlines"]),
        lambda: wl.create_model(unique(), metadata={"f": len}),
        lambda: wl.create_model(unique(), tags=["x"]),  # type: ignore[call-arg]
        lambda: model.register_version(None),  # type: ignore[arg-type]
        lambda: model.set_alias("production", "one"),  # type: ignore[arg-type]
        lambda: model.add_metadata(**{f"n{number}": 1 for number in range(101)}),
        lambda: model.add_metadata(text="x" * 70_000),
        lambda: model.add_label("\x1b[31mred"),
        lambda: list(wl.list_models(sort_by="size")),
    ):
        with pytest.raises(wl.InvalidArgument):
            refused()
    assert model.refresh().record == wl.get_model(model.id).record
    assert (model.metadata, model.labels) == ({}, ())
    status, fault = Server(home).ask("GET", f"{API}/models?cursor=garbage")
    assert (status, fault["code"]) == (400, "invalid_argument")


def test_concurrent_registrations_get_distinct_version_numbers(home: Path) -> None:
    """A concurrent reader of an alias always finds exactly one version."""
    saved = checkpoints(8)
    model = wl.create_model(unique())
    model.register_version(saved[0])
    model.set_alias("production", 1)
    numbers: list[int] = []
    seen: list[int] = []
    done = threading.Event()

    def register(checkpoint: wl.Checkpoint) -> None:
        mine = wl.get_model(model.id)
        for _ in range(3):
            version = mine.register_version(checkpoint)
            mine.set_alias("production", version)
        numbers.append(version.version)

    def ask() -> None:
        mine = wl.get_model(model.id)
        while not done.is_set():
            seen.append(mine.get_version("production").version)

    _together([lambda checkpoint=source: register(checkpoint) for source in saved], ask, done)
    assert sorted(numbers) == list(range(1, 9))
    assert len(seen) > 1 and set(seen) <= set(range(1, 9))
    versions = list(model.list_versions())
    assert [version.version for version in versions] == list(range(1, 9))
    assert len({version.checkpoint_id for version in versions}) == 8
    assert len([version for version in versions if version.aliases]) == 1


def _together(
    acts: list[Callable[[], object]], beside: Callable[[], None], done: threading.Event
) -> None:
    failures: list[BaseException] = []

    def run(act: Callable[[], object]) -> None:
        try:
            act()
        except BaseException as error:
            failures.append(error)

    watcher = threading.Thread(target=run, args=(beside,))
    watcher.start()
    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    done.set()
    watcher.join(PATIENCE)
    assert not failures


def test_the_docstring_examples_of_models_and_workspaces_run(home: Path, project: Project) -> None:
    import inspect
    import re

    from windlass.client.resources.workspace import Project as PlaceProject
    from windlass.client.resources.workspace import Workspace

    blocks = [
        block
        for kind in (wl.Model, wl.ModelVersion, Workspace, PlaceProject, wl.Template)
        for member in vars(kind).values()
        for block in re.findall(r"```python\n(.*?)```", inspect.getdoc(member) or "", re.DOTALL)
    ]
    assert len(blocks) >= 9
    head = (
        "import windlass as wl\n\n@wl.run\ndef train(lr):\n    open('m', 'w').write(str(lr))\n"
        "    wl.save_checkpoint('m', step=1)\n\ntrain(0.1)\n"
    )
    project.write("examples.py", head + "\n".join(blocks))
    done = project.python("examples.py")
    assert done.returncode == 0, done.stderr
