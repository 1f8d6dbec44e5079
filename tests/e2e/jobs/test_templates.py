"""Templates: named fields of jobs, which a job overrides."""

from __future__ import annotations

import pickle
import uuid
from pathlib import Path

import pytest
from steps import double

import windlass as wl
from harness import PATIENCE

SHARES_HOME = True


def unique(what: str = "small") -> str:
    """Return a unique name."""
    return f"{what}-{uuid.uuid4().hex[:8]}"


FIELDS = {
    "cpus": 0.25,
    "memory": "64MB",
    "env": {"A": "template", "B": "template"},
    "retries": 2,
    "timeout": "10m",
    "priority": 3,
    "labels": ["templated"],
}


def test_a_function_inherits_unset_fields_from_its_template(home: Path) -> None:
    template = wl.create_template(unique(), description="Little.", **FIELDS)
    assert wl.get_template(template.name).fields == FIELDS
    function = double.options(template=template.name, env={"B": "own"}, memory="32MB")
    trial = function.submit(2)
    assert trial.result(timeout=PATIENCE) == 4
    spec = trial.record.spec
    [role] = spec.roles
    assert (trial.template, trial.labels) == (template.name, ("templated",))
    assert (role.resources.cpus, role.resources.memory) == (0.25, 32_000_000)
    assert role.env == {"A": "template", "B": "own"}
    assert (role.restart_policy.value, spec.backoff_limit) == ("OnFailure", 2)
    assert (spec.active_deadline, spec.priority) == (600.0, 3)
    once = double.options(template=template.name, retries=0, replicas=1).submit(3)
    assert once.record.spec.roles[0].restart_policy.value == "Never", "what it says counts"
    assert once.rerun().template == template.name


def test_jobs_and_groups_inherit_from_a_template_too(home: Path) -> None:
    name = wl.create_template(unique(), replicas=2, framework="torch", **FIELDS).name
    command = wl.Command(["true"])
    job = wl.Job(command, template=name, priority=0, executor=wl.Local(cpus=0.5))
    trial = job.submit()
    spec = trial.record.spec
    assert (spec.framework, spec.priority, spec.roles[0].replicas) == ("torch", 0, 2)
    assert (spec.roles[0].resources.cpus, spec.roles[0].resources.memory) == (0.5, 64_000_000)
    single = wl.Job(command, template=name, replicas=1, backoff_limit=5).submit().record.spec
    assert (single.roles[0].replicas, single.backoff_limit) == (1, 5)
    group = wl.JobGroup(
        master=wl.Job(command),
        worker=wl.Job(command, env={"A": "own"}, replicas=1),
        template=name,
        name="pair",
    )
    made = group.submit()
    assert (made.template, made.record.spec.active_deadline) == (name, 600.0)
    roles = {role.name: role for role in made.record.spec.roles}
    assert {name: role.replicas for name, role in roles.items()} == {"master": 1, "worker": 1}
    assert roles["worker"].env == {"A": "own", "B": "template"}
    assert roles["master"].resources.cpus == 0.25
    added = wl.create_experiment("templated").add(job, labels=["more"])
    assert (added.template, added.labels) == (name, ("templated", "more"))
    for started in (trial, made, added):
        started.wait(timeout=PATIENCE)


def test_changing_or_deleting_a_template_changes_no_trial(home: Path) -> None:
    template = wl.create_template(unique(), cpus=0.25)
    function = double.options(template=template.name)
    first = function.submit(1)
    template.set_fields(cpus=0.5, labels=["new"])
    second = function.submit(1)
    old = template.name
    template.set_name(unique("other"))
    with pytest.raises(wl.NotFound, match=f"There is no template '{old}'"):
        function.submit(1)
    assert wl.get_template(template.name).id == template.id
    template.delete()
    template.delete()  # as after a lost response
    for trial, cpus, labels in ((first, 0.25, ()), (second, 0.5, ("new",))):
        trial.refresh()
        assert (trial.resources.cpus, trial.labels, trial.template) == (cpus, labels, old)
        trial.wait(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cpu": 2}, "there is no option 'cpu'; did you mean 'cpus'?"),
        ({"gpus": 2}, "did you mean 'accelerator'?"),
        ({"cpus": -1}, "cpus: -1 is out of range"),
        ({"retries": -1}, "retries: -1 is not a valid number of retries"),
        ({"timeout": "soon"}, "timeout: 'soon' is not a duration"),
        ({"retries": 1, "backoff_limit": 2}, "retries is the same as backoff_limit"),
        ({"secrets": {"TOKEN": "x"}}, "stores no secret values; write a list of names"),
        ({"framework": "torhc"}, "did you mean 'torch'?"),
        ({"env": {"A": 1}}, "env: A is 1"),
        ({"packages": "numpy"}, "packages: write a list"),
        ({"labels": ["two\nlines"]}, "is not a valid label; write a string on one line"),
        ({"executable": "train.py"}, "there is no option 'executable'"),
        ({"volumes": {"data": "/not/there"}}, "volumes: '/not/there' does not exist"),
    ],
    ids=repr,
)
def test_a_template_with_invalid_fields_is_refused_at_creation(
    home: Path, fields: dict[str, object], message: str
) -> None:
    name = unique()
    with pytest.raises(wl.InvalidArgument) as refusal:
        wl.create_template(name, **fields)
    assert message in str(refusal.value)
    assert list(wl.list_templates(name=name)) == []
    kept = wl.create_template(name, cpus=1)
    with pytest.raises(wl.InvalidArgument):
        kept.set_fields(**fields)
    assert wl.get_template(name).fields == {"cpus": 1}


def test_one_error_lists_all_problems_of_a_template(home: Path) -> None:
    with pytest.raises(wl.InvalidArgument, match=r"wl\.create_template: 3 problems:"):
        wl.create_template(unique(), cpu=1, memory="4XB", replicas=0)


def test_names_are_unique_and_similar_names_are_suggested(home: Path) -> None:
    template = wl.create_template(unique("medium"), cpus=1)
    with pytest.raises(wl.Conflict, match=r"A template .* already exists"):
        wl.create_template(template.name)
    with pytest.raises(wl.NotFound, match=f"Did you mean '{template.name}'"):
        wl.Job(wl.Command(["true"]), template=template.name.replace("med", "mde")).submit()
    with pytest.raises(wl.InvalidArgument, match="template: '' is not a valid name"):
        double.options(template="")
    assert pickle.loads(pickle.dumps(template)).refresh().record == template.record
    assert repr(template) == f"<Template {template.name}: cpus=1>"


def test_the_fields_of_a_template_are_checked_together_with_the_job(home: Path) -> None:
    """Each may be valid alone, but not in combination."""
    name = wl.create_template(unique(), framework="torch").name
    both = wl.JobGroup(
        chief=wl.Job(wl.Command(["true"])), worker=wl.Job(wl.Command(["true"])), template=name
    )
    with pytest.raises(wl.InvalidArgument, match="chief"):
        both.submit()


def test_a_dry_run_shows_the_fields_of_the_template(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = wl.create_template(unique(), **FIELDS).name
    trial = double.options(template=name).dry_run(2)
    shown = capsys.readouterr().out
    assert f"template     {name}" in shown and "A=template" in shown
    assert trial.template == name


def test_a_dry_run_starts_no_server_for_a_template(fresh_home: Path) -> None:
    with pytest.raises(wl.ServerError, match="no server runs"):
        wl.Job(wl.Command(["true"]), template="small").submit(dry_run=True)
    assert not (fresh_home / "server.json").exists()
