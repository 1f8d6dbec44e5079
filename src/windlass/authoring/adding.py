"""Adding to an experiment: a job with arguments of its own becomes a trial, once an identity."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.authoring.checks import (
    Problem,
    callers_level,
    check_labels,
    check_name,
    flaw_of,
)
from windlass.authoring.drafting import Filing
from windlass.authoring.executables import Executable
from windlass.authoring.function import Function
from windlass.authoring.jobs import Job, JobGroup
from windlass.authoring.laying import changed, with_arguments, with_env
from windlass.authoring.outlines import prepare_job
from windlass.authoring.packaged import Packaged
from windlass.client.following import insist
from windlass.model.errors import InvalidArgument, shown
from windlass.model.records import Recipe, SearchPlace

if TYPE_CHECKING:
    from windlass.client.experiments import Experiment
    from windlass.client.session import Client
    from windlass.client.trials import Trial
    from windlass.model.records import ExperimentRecord

_LONGEST_IDENTITY = 1000


@dataclass(frozen=True)
class Wish:
    """What is asked of a new trial beside its job."""

    args: Any = None
    env: Any = None
    name: str | None = None
    labels: Sequence[str] = ()
    identity: str | None = None
    auxiliary: bool = False
    parent_id: int | None = None
    inherited: Mapping[str, Any] = field(default_factory=dict)  # the parameters of its parent
    search: SearchPlace | None = None


def add(experiment: Experiment, client: Client, what: Any, wish: Wish) -> Trial[Any]:
    """A new trial of an experiment, or the one that its identity made before."""
    if is_generator(what):
        from windlass.authoring.generators import add_generator

        return add_generator(client, experiment.record, what, wish)
    return add_job(client, experiment.record, what, wish)


def is_generator(what: Any) -> bool:
    """Whether it is a function that adds jobs, and no job itself."""
    return callable(what) and not isinstance(what, (Job, JobGroup, Function))


def add_job(client: Client, experiment: ExperimentRecord, what: Any, wish: Wish) -> Trial[Any]:
    """A trial of a job, a group, or a function that is decorated with `wl.run`."""
    job = _named(job_of(what), wish, experiment)
    problems = check_wish(wish)
    job, found = with_arguments(job, wish.args)
    problems += found
    job, found = with_env(job, wish.env)
    problems += found
    if problems:
        raise InvalidArgument.of([text for _, text in problems], where="exp.add")
    draft = prepare_job(job, lambda: client).draft(client, _filing(experiment, wish))
    if wish.inherited:
        params = {**wish.inherited, **draft.request.params}
        draft.request = msgspec.structs.replace(draft.request, params=params)
    if experiment.priority and not draft.request.spec.is_local:
        _warn_of_priority(experiment)
    # A generator may be far on: a server that is away for a while does not fail all of it.
    is_built = wish.parent_id is not None
    trial = insist(lambda: client.submit(draft)) if is_built else client.submit(draft)
    if wish.identity is not None and wish.search is None:
        _warn_of_others(trial, draft.request.params, wish.identity)
    return trial


def _warn_of_priority(experiment: ExperimentRecord) -> None:
    """Say that what has others of the experiment start first says nothing to a cluster."""
    warnings.warn(
        f"The experiment {shown(experiment.name)} has the priority {experiment.priority}, which "
        "has no effect on trials in pods: the cluster's scheduler lets these in. Name a priority "
        "class of the cluster: wl.Kubernetes(priority_class=...)",
        stacklevel=callers_level(),
    )


def _warn_of_others(trial: Trial[Any], asked: Mapping[str, Any], identity: str) -> None:
    """Say that the trial an identity made before has other arguments than were given now."""
    plain = msgspec.json.decode(msgspec.json.encode(asked))
    if trial.params == plain:
        return
    both = {**trial.params, **plain}
    names = [name for name in both if trial.params.get(name) != plain.get(name)]
    warnings.warn(
        f"identity {shown(identity)}: trial {trial.id} exists, with other arguments than these "
        f"({', '.join(names[:5])}); it is returned as it is",
        stacklevel=callers_level(),
    )


def key_of(experiment: ExperimentRecord, identity: str) -> str:
    """The key of the trial that an identity is in an experiment: the same always and anywhere."""
    return hashlib.sha256(f"{experiment.uid}\0{identity}".encode()).hexdigest()[:32]


def _filing(experiment: ExperimentRecord, wish: Wish) -> Filing:
    return Filing(
        experiment=experiment.name,
        experiment_id=experiment.id,
        key=key_of(experiment, wish.identity) if wish.identity is not None else "",
        labels=tuple(wish.labels),
        auxiliary=wish.auxiliary,
        parent_id=wish.parent_id,
        recipe=Recipe(identity=wish.identity or "", search=wish.search),
    )


def job_of(what: Any) -> Job | JobGroup:
    """The job that something is or stands for."""
    if isinstance(what, (Job, JobGroup)):
        return what
    if isinstance(what, Function):
        return what.job()
    is_program = isinstance(what, (Packaged, Executable))
    hint = "Write: exp.add(wl.Job(...), args={...}); or a wl.JobGroup, a function decorated "
    hint += "with wl.run, or a generator."
    raise InvalidArgument(
        f"exp.add: {shown(what)} is no job" + (", but what a job runs." if is_program else "."),
        hint="Make it one: exp.add(wl.Job(...), args={...})" if is_program else hint,
    )


def _named(job: Job | JobGroup, wish: Wish, experiment: ExperimentRecord) -> Job | JobGroup:
    if job.experiment is not None and job.experiment != experiment.name:
        raise InvalidArgument(
            f"exp.add: the job says experiment={shown(job.experiment)}, and it is added to "
            f"{shown(experiment.name)}.",
            hint="Leave experiment= out of the job: it belongs to what it is added to.",
        )
    return job if wish.name is None else changed(job, name=wish.name)


def check_wish(wish: Wish) -> list[Problem]:
    """What is wrong with it, whatever it is wished for."""
    problems = [*check_name("name", wish.name), *check_labels(wish.labels)]
    flaw = "" if wish.identity is None else _identity_flaw(wish.identity)
    if flaw:
        problems.append((("identity",), f"identity: {shown(wish.identity)} {flaw}"))
    if not isinstance(wish.auxiliary, bool):
        problems.append((("auxiliary",), "auxiliary: write True or False"))
    return problems


def _identity_flaw(identity: Any) -> str:
    if not isinstance(identity, str) or not identity:
        return "is none; write a text that is unique in the experiment"
    if len(identity) > _LONGEST_IDENTITY:
        return f"is too long: it has at most {_LONGEST_IDENTITY} characters"
    return flaw_of(identity)
