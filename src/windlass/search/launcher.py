"""Adds a search's trials, all of which run the same version of the code."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from windlass.authoring.checks.job import check_job, refuse_unsupported
from windlass.authoring.prepare.add_to_experiment import AddOptions, add_jobs, as_job
from windlass.authoring.prepare.overrides import replace_fields, with_arguments
from windlass.authoring.prepare.package_code import package
from windlass.authoring.public.jobs import Job, JobGroup
from windlass.authoring.public.run_decorator import Function
from windlass.client.client import Client
from windlass.client.resources.trial.trial import Trial
from windlass.model.errors import Conflict, InvalidArgument, shown
from windlass.model.records import ExperimentRecord, SearchSuggestion
from windlass.search.policy import identity


class Launcher:
    """Adds one search's trials to an experiment.

    The chosen parameters are passed as the job's arguments. In a job group, each parameter's name
    starts with its role, as in `"learner.lr"`.
    """

    def __init__(
        self, client: Client, experiment: ExperimentRecord, name: str, what: Any,
        args: Any, space: Iterable[str], labels: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._client = client
        self._labels = labels
        self._experiment = experiment
        self._name = name
        job, problems = with_arguments(_job_of(what), args)
        messages = [text for _, text in problems]
        messages += [
            f"{name} is both in space and in args; remove it from one of them"
            for name in space
            if _is_given(args, name)
        ]
        if isinstance(job, JobGroup):
            messages += _role_flaws(job, space)
        if messages:
            raise InvalidArgument.of(messages, where="exp.search")
        self._job = job

    @property
    def job_name(self) -> str:
        """The name of the job that the search runs."""
        from windlass.authoring.prepare.programs import executable_name

        if self._job.name is not None:
            return self._job.name
        if isinstance(self._job, JobGroup):
            return "+".join(self._job.roles)
        return executable_name(self._job.executable)

    def check(self, params: Mapping[str, Any]) -> None:
        """Raise an error if these parameters cannot be used in any trial."""
        job, problems = with_arguments(self._job, self._arguments(params))
        if problems:
            raise InvalidArgument.of([text for _, text in problems], where="exp.search")
        check_job(job)
        refuse_unsupported(job)

    def package(self) -> None:
        """Take a snapshot of the code now, for all trials that are added later."""
        if isinstance(self._job, Job):
            [packaged] = package(self._client, [self._job.executable])
            self._job = replace_fields(self._job, executable=packaged)
            return
        names = list(self._job.roles)
        executables = package(self._client, [self._job.roles[name].executable for name in names])
        roles = {
            name: replace_fields(self._job.roles[name], executable=executable)
            for name, executable in zip(names, executables, strict=True)
        }
        self._job = replace_fields(self._job, roles=roles)

    def add(self, proposals: Sequence[tuple[int, Mapping[str, Any]]]) -> list[Trial[Any]]:
        """Add trials with the given numbers and parameters, in one request.

        If a trial with one of the numbers exists, return it, whatever its parameters are.
        """
        wishes = [
            AddOptions(
                args=self._arguments(params),
                labels=self._labels,
                identity=identity(self._name, number),
                search=SearchSuggestion(search=self._name, number=number, params=dict(params)),
            )
            for number, params in proposals
        ]
        trials = add_jobs(self._client, self._experiment, self._job, wishes)
        for trial, wish in zip(trials, wishes, strict=True):
            if trial.record.recipe.search is None:  # otherwise the search would wait forever
                raise Conflict(
                    f"exp.search: trial {trial.id} ({trial.name}) does not belong to the search "
                    f"{shown(self._name)}, but has the identity {shown(wish.identity)} of its "
                    "trials.",
                    hint='Use another name for the search: exp.search(..., name="...")',
                )
        return trials

    def _arguments(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(self._job, Job):
            return dict(params)
        by_role: dict[str, Any] = {}
        for name, value in params.items():
            role, _, inner = name.partition(".")
            by_role.setdefault(role, {})[inner] = value
        return by_role


def _job_of(what: Any) -> Job | JobGroup:
    if isinstance(what, (Job, JobGroup, Function)):
        return as_job(what)
    if inspect.isfunction(what):
        name = what.__name__
        remedy = f"Decorate it with @wl.run, or pass wl.Job(wl.PythonFunction({name}))."
        raise InvalidArgument(f"exp.search: {name} is a plain function.", hint=remedy)
    raise InvalidArgument(
        f"exp.search: {shown(what)} is not a job.",
        hint="Pass a function decorated with wl.run, a wl.Job or a wl.JobGroup.",
    )


def _is_given(args: Any, name: str) -> bool:
    """Return True if the arguments already set a parameter, directly or in a nested mapping."""
    if not isinstance(args, Mapping):
        return False
    if name in args:
        return True
    first, _, rest = name.partition(".")
    return bool(rest) and _is_given(args.get(first), rest)


def _role_flaws(group: JobGroup, space: Iterable[str]) -> list[str]:
    roles = list(group.roles)
    return [
        f"space: {shown(name)} does not begin with a role of the group; write "
        f"{shown(f'{roles[0]}.{name}')}, or another of its roles: {', '.join(roles)}."
        for name in space
        if name.partition(".")[0] not in roles or not name.partition(".")[2]
    ]
