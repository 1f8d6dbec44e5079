"""Implements `exp.add`, which adds jobs and generators to an experiment."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.authoring.checks.options import (
    Problem,
    callers_level,
    check_labels,
    check_name,
    find_text_flaw,
)
from windlass.authoring.prepare.draft import Filing
from windlass.authoring.prepare.job_spec import PreparedJob, prepare_job
from windlass.authoring.prepare.overrides import replace_fields, with_arguments, with_env
from windlass.authoring.public.executables import Executable
from windlass.authoring.public.jobs import Job, JobGroup
from windlass.authoring.public.packaged import Packaged
from windlass.authoring.public.run_decorator import Function
from windlass.client.connection.event_stream import insist
from windlass.model.errors import InvalidArgument, shown
from windlass.model.records import Recipe, SearchSuggestion

if TYPE_CHECKING:
    from windlass.authoring.prepare.draft import Plan
    from windlass.client.client import Client
    from windlass.client.resources.experiment.experiment import Experiment
    from windlass.client.resources.trial.trial import Trial
    from windlass.model.records import ExperimentRecord
    from windlass.packaging.draft import Draft

_LONGEST_IDENTITY = 1000
_BATCH = 500  # trials in one request


@dataclass(frozen=True)
class AddOptions:
    """The arguments of `exp.add` except the job."""

    args: Any = None
    env: Any = None
    name: str | None = None
    labels: Sequence[str] = ()
    identity: str | None = None
    auxiliary: bool = False
    parent_id: int | None = None
    inherited: Mapping[str, Any] = field(default_factory=dict)  # the parameters of the parent trial
    search: SearchSuggestion | None = None


def add_options(
    shared: AddOptions, args: Iterable[Any], identities: Iterable[str] | None
) -> list[AddOptions]:
    """Return the options for each trial of `exp.add_many`, based on the shared options."""
    if isinstance(args, (str, bytes, Mapping)):
        raise InvalidArgument(
            f"exp.add_many: args has to be a list with the arguments of each trial, not "
            f"{shown(args)}.",
            hint='Write: exp.add_many(job, [{"lr": 0.1}, {"lr": 0.01}])',
        )
    each_args = list(args)
    each_identity = [None] * len(each_args) if identities is None else list(identities)
    if len(each_identity) != len(each_args):
        raise InvalidArgument(
            f"exp.add_many: args has {len(each_args)} entries and identities has "
            f"{len(each_identity)}.",
            hint="Write one identity for each entry of args.",
        )
    return [
        replace(shared, args=args, identity=identity)
        for args, identity in zip(each_args, each_identity, strict=True)
    ]


def add(experiment: Experiment, client: Client, what: Any, options: AddOptions) -> Trial[Any]:
    """Add a trial to an experiment.

    If the experiment already has a trial with the same `identity`, return that trial.
    """
    if is_generator(what):
        from windlass.authoring.prepare.generators import add_generator

        return add_generator(client, experiment.record, what, options)
    return add_job(client, experiment.record, what, options)


def is_generator(what: Any) -> bool:
    """Return whether a value is a generator function that adds jobs, rather than a job."""
    return callable(what) and not isinstance(what, (Job, JobGroup, Function))


def add_job(
    client: Client, experiment: ExperimentRecord, what: Any, options: AddOptions
) -> Trial[Any]:
    """Submit a job, a group or a `wl.run` function as a trial in an experiment."""
    draft = _prepare(client, experiment, what, options).draft(client, _filing(experiment, options))
    if options.inherited:
        params = {**options.inherited, **draft.request.params}
        draft.request = msgspec.structs.replace(draft.request, params=params)
    if experiment.priority and not draft.request.spec.capabilities.has_priority:
        _warn_of_priority(experiment)
    # A generator may have been running for a long time, so retry while the server is down.
    is_built = options.parent_id is not None
    trial = insist(lambda: client.submit(draft)) if is_built else client.submit(draft)
    if options.identity is not None and options.search is None:
        _warn_of_other_arguments(trial, draft.request.params, options.identity)
    return trial


def add_jobs(
    client: Client, experiment: ExperimentRecord, what: Any, options: Sequence[AddOptions]
) -> list[Trial[Any]]:
    """Create trials of the same job with different arguments, in few requests."""
    plan: Plan | None = None
    prepared: PreparedJob | None = None
    drafts: list[Draft] = []
    for number, each in enumerate(options):
        try:
            prepared = _prepare(client, experiment, what, each, prepared)
        except InvalidArgument as error:
            if len(options) > 1:
                error.message = f"args[{number}]: {error.message}"
            raise
        filing = prepared.filing(_filing(experiment, each))
        if plan is None:
            plan = prepared.plan(client, filing)
        drafts.append(plan.draft(prepared.programs, prepared.params, filing))
    if experiment.priority and not drafts[0].request.spec.capabilities.has_priority:
        _warn_of_priority(experiment)
    trials: list[Trial[Any]] = []
    for start in range(0, len(drafts), _BATCH):
        trials += client.submit_all(drafts[start : start + _BATCH])
    for trial, draft, each in zip(trials, drafts, options, strict=True):
        if each.identity is not None and each.search is None:
            _warn_of_other_arguments(trial, draft.request.params, each.identity)
    return trials


def _prepare(
    client: Client,
    experiment: ExperimentRecord,
    what: Any,
    options: AddOptions,
    similar: PreparedJob | None = None,
) -> PreparedJob:
    job = _with_name(as_job(what), options, experiment)
    problems = check_add_options(options)
    job, override_problems = with_arguments(job, options.args)
    problems += override_problems
    job, override_problems = with_env(job, options.env)
    problems += override_problems
    if problems:
        raise InvalidArgument.of([text for _, text in problems], where="exp.add")
    return prepare_job(job, lambda: client, similar=similar)


def _warn_of_priority(experiment: ExperimentRecord) -> None:
    """Warn that the experiment's priority has no effect on trials in a cluster."""
    warnings.warn(
        f"The experiment {shown(experiment.name)} has the priority {experiment.priority}, which "
        "has no effect on trials in pods: the cluster's scheduler lets these in. Name a priority "
        "class of the cluster: wl.Kubernetes(priority_class=...)",
        stacklevel=callers_level(),
    )


def _warn_of_other_arguments(trial: Trial[Any], params: Mapping[str, Any], identity: str) -> None:
    """Warn if an existing trial is returned although it has different arguments."""
    plain = msgspec.json.decode(msgspec.json.encode(params))
    if trial.params == plain:
        return
    both = {**trial.params, **plain}
    names = [name for name in both if trial.params.get(name) != plain.get(name)]
    warnings.warn(
        f"identity {shown(identity)}: trial {trial.id} exists, with different arguments "
        f"({', '.join(names[:5])}); it is returned as it is",
        stacklevel=callers_level(),
    )


def idempotency_key(experiment: ExperimentRecord, identity: str) -> str:
    """Return the key that lets the server recognize a repeated request.

    The key depends only on the experiment and the trial's identity.
    """
    return hashlib.sha256(f"{experiment.uid}\0{identity}".encode()).hexdigest()[:32]


def _filing(experiment: ExperimentRecord, options: AddOptions) -> Filing:
    return Filing(
        experiment=experiment.name,
        experiment_id=experiment.id,
        key=idempotency_key(experiment, options.identity) if options.identity is not None else "",
        labels=tuple(options.labels),
        auxiliary=options.auxiliary,
        parent_id=options.parent_id,
        recipe=Recipe(identity=options.identity or "", search=options.search),
    )


def as_job(what: Any) -> Job | JobGroup:
    """Convert the argument of `exp.add` to a job."""
    if isinstance(what, (Job, JobGroup)):
        return what
    if isinstance(what, Function):
        return what.job()
    is_program = isinstance(what, (Packaged, Executable))
    hint = "Write: exp.add(wl.Job(...), args={...}); or a wl.JobGroup, a function decorated "
    hint += "with wl.run, or a generator."
    raise InvalidArgument(
        f"exp.add: {shown(what)} is not a job" + (", but an executable." if is_program else "."),
        hint="Put it into a job: exp.add(wl.Job(...), args={...})" if is_program else hint,
    )


def _with_name(
    job: Job | JobGroup, options: AddOptions, experiment: ExperimentRecord
) -> Job | JobGroup:
    if job.experiment is not None and job.experiment != experiment.name:
        raise InvalidArgument(
            f"exp.add: the job has experiment={shown(job.experiment)}, but is added to "
            f"{shown(experiment.name)}.",
            hint="Remove experiment= from the job: a trial belongs to the experiment it "
            "is added to.",
        )
    return job if options.name is None else replace_fields(job, name=options.name)


def check_add_options(options: AddOptions) -> list[Problem]:
    """Return the problems with options that apply to both jobs and generators."""
    problems = [*check_name("name", options.name), *check_labels(options.labels)]
    flaw = "" if options.identity is None else _identity_flaw(options.identity)
    if flaw:
        problems.append((("identity",), f"identity: {shown(options.identity)} {flaw}"))
    if not isinstance(options.auxiliary, bool):
        problems.append((("auxiliary",), "auxiliary: write True or False"))
    return problems


def _identity_flaw(identity: Any) -> str:
    if not isinstance(identity, str) or not identity:
        return "is not an identity; write a string that is unique in the experiment"
    if len(identity) > _LONGEST_IDENTITY:
        return f"is too long; an identity has at most {_LONGEST_IDENTITY} characters"
    return find_text_flaw(identity)
