"""Workspaces and projects: created, found, renamed, moved, archived, deleted, concurrently."""

from __future__ import annotations

import json
import pickle
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from steps import double

import windlass as wl
from server_requests import API, Server


def unique(what: str) -> str:
    """Return a unique name."""
    return f"{what}-{uuid.uuid4().hex[:8]}"


def test_a_default_workspace_and_project_exist_and_stay(home: Path) -> None:
    workspace, project = wl.get_workspace("default"), wl.get_project("default")
    assert (workspace.id, project.id, project.workspace, project.place) == (
        1, 1, "default", "default",
    )  # fmt: skip
    for refused in (
        lambda: workspace.set_name("mine"),
        lambda: project.set_name("mine"),
        workspace.archive,
        project.archive,
        workspace.delete,
        project.delete,
        lambda: project.move_to(wl.create_workspace(unique("lab"))),
    ):
        with pytest.raises(wl.Conflict, match=r"'default' is the default"):
            refused()
    assert wl.get_project(1).set_description("All sorts.").description == "All sorts."


def test_a_script_needs_no_create_call_in_the_default_workspace(home: Path) -> None:
    name = unique("vision")
    experiment = wl.create_experiment("sweep", project=name)
    project = wl.get_project(name)
    assert (experiment.project, project.place, project.experiment_count) == (name, name, 1)
    assert wl.create_experiment("other", project=f"default/{name}").project == name
    assert [experiment.name for experiment in project.list_experiments()] == ["sweep", "other"]
    with pytest.raises(wl.NotFound, match="There is no project 'never-"):
        list(wl.list_experiments(project=unique("never")))


def test_another_workspace_must_exist_and_a_similar_one_is_suggested(home: Path) -> None:
    lab = unique("laboratory")
    with pytest.raises(wl.NotFound, match=f"There is no workspace '{lab}'"):
        wl.create_experiment("sweep", project=f"{lab}/vision")
    wl.create_workspace(lab)
    assert wl.create_experiment("sweep", project=f"{lab}/vision").project == f"{lab}/vision"
    with pytest.raises(wl.NotFound, match=f"Did you mean '{lab}'"):
        wl.create_experiment("sweep", project=f"{lab.upper()}/vision")
    with pytest.raises(wl.NotFound, match=f"no project '{lab}/visoin'.*\n.*'{lab}/vision'"):
        wl.get_project(f"{lab}/visoin")
    with pytest.raises(wl.NotFound, match=f"Did you mean '{lab}'"):
        wl.get_workspace(lab[:-1])
    with pytest.raises(wl.NotFound, match="no project 999999"):
        wl.get_project(999_999)


def test_names_are_unique_within_their_scope(home: Path) -> None:
    lab, other = (wl.create_workspace(unique("lab")) for _ in range(2))
    with pytest.raises(wl.Conflict, match=rf"A workspace '{lab.name}' already exists") as caught:
        wl.create_workspace(lab.name)
    assert caught.value.hint == "Use the existing one with exist_ok=True, or choose another name."
    assert wl.create_workspace(lab.name, exist_ok=True).id == lab.id
    first, second = lab.create_project("vision"), other.create_project("vision")
    assert (first.place, second.place) == (f"{lab.name}/vision", f"{other.name}/vision")
    with pytest.raises(wl.Conflict, match="already"):
        lab.create_project("vision")
    assert lab.create_project("vision", exist_ok=True).id == first.id
    with pytest.raises(wl.Conflict, match="already"):
        second.move_to(lab)
    assert second.set_name("sound").move_to(lab).place == f"{lab.name}/sound"
    assert {project.name for project in lab.list_projects()} == {"vision", "sound"}
    with pytest.raises(wl.Conflict, match="already"):
        first.set_name("sound")
    with pytest.raises(wl.Conflict, match="already"):
        lab.set_name(other.name)
    assert first.refresh().name == "vision"


def test_a_new_name_is_visible_in_all_children(home: Path) -> None:
    lab = wl.create_workspace(unique("lab"))
    project = lab.create_project("vision")
    experiment = wl.create_experiment("sweep", project=project.place)
    trial = experiment.add(double, args={"x": 2})
    assert trial.project == project.place
    project.set_name("sight")
    lab.set_name(unique("hall"))
    place = f"{lab.name}/sight"
    assert project.refresh().place == place
    assert experiment.refresh().project == trial.refresh().project == place
    assert trial.wait().project == place
    assert [trial.id for trial in wl.list_trials(project=place)] == [trial.id]
    experiment.set_name("search")
    assert trial.refresh().experiment == "search"
    assert trial.set_name("second try").refresh().name == "second try"


def test_an_experiment_is_moved_with_its_trials(home: Path) -> None:
    lab = wl.create_workspace(unique("lab"))
    project = lab.create_project("vision")
    experiment = wl.create_experiment("sweep")
    trial = experiment.add(double, args={"x": 2})
    assert experiment.move_to(project).project == project.place
    assert trial.refresh().project == project.place
    assert project.refresh().experiment_count == 1
    new = unique("made-on-use")
    assert experiment.move_to(new).project == new
    assert [experiment.id for experiment in wl.get_project(new).list_experiments()] == [
        experiment.id
    ]
    with pytest.raises(wl.NotFound, match="no workspace"):
        experiment.move_to(f"{unique('never')}/vision")
    assert experiment.refresh().project == new
    trial.wait()


def test_an_archived_object_is_not_listed_and_accepts_no_children(home: Path) -> None:
    lab = wl.create_workspace(unique("lab"))
    project = lab.create_project("vision")
    experiment = wl.create_experiment("sweep", project=project.place)
    trial = experiment.add(double, args={"x": 2}).wait()

    def are_listed(archived: bool | None) -> tuple[bool, bool, bool, bool]:
        return (
            lab.id in {workspace.id for workspace in wl.list_workspaces(archived=archived)},
            project.id in {project.id for project in wl.list_projects(archived=archived)},
            experiment.id
            in {experiment.id for experiment in wl.list_experiments(archived=archived)},
            trial.id in {trial.id for trial in wl.list_trials(archived=archived)},
        )

    assert are_listed(False) == (True, True, True, True)
    assert are_listed(True) == (False, False, False, False)
    experiment.archive()
    assert are_listed(False) == (True, True, False, False)
    assert are_listed(True) == (False, False, True, True)
    assert [trial.id for trial in experiment.list_trials()] == [trial.id], "it is asked for"
    experiment.unarchive()
    project.archive()
    assert are_listed(False) == (True, False, False, False)
    with pytest.raises(wl.Conflict, match=r"'lab-.*/vision' is archived"):
        wl.create_experiment("sweep", project=project.place)
    with pytest.raises(wl.Conflict, match="is archived"):
        wl.create_experiment("elsewhere").move_to(project)
    project.unarchive()
    lab.archive()
    assert are_listed(False) == (False, False, False, False)
    assert are_listed(None) == (True, True, True, True)
    for refused in (
        lambda: wl.create_experiment("sweep", project=project.place),
        lambda: lab.create_project("sound"),
    ):
        with pytest.raises(wl.Conflict, match=f"workspace '{lab.name}' is archived"):
            refused()
    lab.unarchive()
    assert are_listed(False) == (True, True, True, True)


def test_a_new_trial_is_not_put_into_an_archived_experiment_of_its_name(home: Path) -> None:
    name = unique("double")
    function = double.options(experiment=name)
    first = function.submit(1)
    wl.get_experiment(name).archive()
    second = function.submit(2)
    assert first.wait().record.experiment_id != second.wait().record.experiment_id
    assert wl.get_experiment(name).id == second.record.experiment_id
    archived = wl.get_experiment(first.record.experiment_id)
    third = archived.add(double, args={"x": 3})  # an experiment object still works
    assert third.wait().record.experiment_id == archived.id


def test_only_an_empty_workspace_or_project_is_deleted(home: Path) -> None:
    lab = wl.create_workspace(unique("lab"))
    project = lab.create_project("vision")
    experiment = wl.create_experiment("sweep", project=project.place)
    wl.create_experiment("sweep", project=project.place)
    with pytest.raises(
        wl.Conflict, match=r"contains 2 experiments, so it cannot be deleted\.\n.*archive"
    ):
        project.delete()
    with pytest.raises(wl.Conflict, match=r"contains 1 project, so it cannot be deleted"):
        lab.delete()
    for added in project.list_experiments():
        added.move_to("default")
    project.delete()
    project.delete()  # as after a lost response
    lab.delete()
    with pytest.raises(wl.NotFound, match="no project"):
        project.refresh()
    with pytest.raises(wl.NotFound, match="no workspace"):
        lab.refresh()
    assert experiment.refresh().project == "default"


@pytest.mark.parametrize(
    "name", ["", " ", "a\nb", "a/b", " a", "x" * 201, "\u202eevil", None, 7, "half \ud800"]
)
def test_invalid_names_are_refused_with_the_rule(home: Path, name: str) -> None:
    lab = wl.get_workspace("default")
    for refused in (
        lambda: wl.create_workspace(name),
        lambda: lab.create_project(name),
        lambda: lab.create_project(unique("p")).set_name(name),
    ):
        with pytest.raises(
            wl.InvalidArgument, match=r"is not a valid (name|workspace|project)|at most"
        ):
            refused()


@pytest.mark.parametrize("name", ["vision 2 (β)", "a,b;c", "'quoted' \"twice\"", "50%", "ünï", "9"])
def test_names_may_contain_any_printable_character(home: Path, name: str) -> None:
    lab = wl.create_workspace(unique("lab " + name))
    project = lab.create_project(name)
    assert wl.get_workspace(lab.name).id == lab.id
    assert wl.get_project(f"{lab.name}/{name}").id == project.id
    experiment = wl.create_experiment("sweep", project=project.place).add_label(name)
    assert [
        experiment.id for experiment in wl.list_experiments(project=project.place, labels=name)
    ] == [experiment.id]


@pytest.mark.parametrize("odd", ["two\u2028lines", "\u202eevil", "   ", "\x07", "x" * 201, ""])
def test_the_server_enforces_the_name_rules_for_every_client(home: Path, odd: str) -> None:
    experiment = wl.create_experiment("ruled")
    server = Server(home)
    key = uuid.uuid4().hex
    path = f"{API}/experiments/{experiment.id}"
    for method, where, body in (
        ("PATCH", path, {"add_labels": [odd]}),
        ("PATCH", path, {"labels": [odd]}),
        ("PATCH", path, {"name": odd}),
        ("PATCH", path, {"project": odd}),
        ("PATCH", path, {"project": f"lab/{odd}"}),
        ("POST", f"{API}/workspaces", {"key": key, "name": odd}),
        ("POST", f"{API}/projects", {"key": key, "name": odd, "workspace_id": 1}),
        ("POST", f"{API}/models", {"key": key, "name": odd}),
        ("POST", f"{API}/models", {"key": key, "name": "net", "labels": [odd]}),
        ("POST", f"{API}/templates", {"key": key, "name": odd}),
        ("POST", f"{API}/experiments", {"key": key, "name": "e", "labels": [odd]}),
    ):
        status, fault = server.ask(method, where, json.dumps(body).encode())
        assert (status, fault["code"]) == (400, "invalid_argument"), (body, fault)
    before = experiment.record
    assert experiment.refresh().record == before


def test_workspaces_and_projects_can_be_pickled(home: Path) -> None:
    lab = wl.create_workspace(unique("lab"))
    project = lab.create_project("vision")
    for scope in (lab, project):
        again = pickle.loads(pickle.dumps(scope))
        assert again.record == scope.record
        assert again.refresh().id == scope.id
    assert repr(lab.refresh()) == f"<Workspace {lab.name}: 1 project>"
    assert repr(project) == f"<Project {lab.name}/vision: 0 experiments>"


def test_a_list_is_read_in_pages_and_sorted(home: Path) -> None:
    lab = wl.create_workspace(unique("lab"))
    for number in range(105):
        lab.create_project(f"p{number:03}")
    names = [project.name for project in lab.list_projects(sort_by="-name")]
    assert names == [f"p{number:03}" for number in reversed(range(105))]
    assert [project.name for project in lab.list_projects(limit=2)] == ["p000", "p001"]
    with pytest.raises(wl.InvalidArgument, match="Cannot sort by 'size'"):
        list(lab.list_projects(sort_by="size"))


def test_concurrent_renames_and_moves_keep_names_unique(home: Path) -> None:
    """Each change is atomic: names stay unique, every experiment is in exactly one project."""
    labs = [wl.create_workspace(unique("lab")) for _ in range(2)]
    projects = [labs[number % 2].create_project(f"p{number}") for number in range(4)]
    experiments = [wl.create_experiment("e", project=projects[0].place) for _ in range(8)]
    refused: list[str] = []

    def at_once(acts: list[Callable[[], object]]) -> None:
        gate = threading.Barrier(len(acts))

        def act(what: Callable[[], object]) -> None:
            gate.wait(60)
            try:
                what()
            except wl.Conflict as error:
                refused.append(error.message)

        threads = [threading.Thread(target=act, args=(step,)) for step in acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()

    for _ in range(5):
        acts: list[Callable[[], object]] = []
        acts += [lambda p=project: p.set_name("wanted") for project in projects]
        acts += [
            lambda p=project, n=n: p.move_to(labs[n % 2]) for n, project in enumerate(projects)
        ]
        acts += [
            lambda e=experiment, n=n: e.move_to(wl.get_project(projects[n % 4].id))
            for n, experiment in enumerate(experiments)
        ]
        at_once(acts)
        places = [wl.get_project(project.id).place for project in projects]
        assert len(set(places)) == len(places), places
        held = sum(wl.get_project(project.id).experiment_count for project in projects)
        assert held == len(experiments)
        assert all(experiment.refresh().project in places for experiment in experiments)
    assert any("'wanted' already" in refusal for refusal in refused)
    names = sorted(project.name for lab in labs for project in lab.list_projects())
    assert names.count("wanted") == 2, names


def test_a_project_used_by_many_clients_at_once_is_created_once(home: Path) -> None:
    name = unique("shared")
    threads = [threading.Thread(target=wl.create_experiment, args=("e", name)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    [project] = wl.list_projects(name=name)
    assert project.experiment_count == 12
