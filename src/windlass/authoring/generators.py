"""Generators: functions in this process that build the jobs of a trial, one by one.

A generator runs here and not on the server, so it may close over anything, and a debugger stops
in it. Its trial is on the server from the start, and keeps what was added to it whatever becomes
of this process.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from windlass.authoring.adding import Wish, add, check_wish, key_of
from windlass.authoring.function import bind, name_of
from windlass.client.building import Building, hold, known_building
from windlass.client.experiments import Experiment
from windlass.client.session import Client
from windlass.client.transport import path_of
from windlass.client.trials import Trial
from windlass.model.errors import InvalidArgument, Unsupported, shown
from windlass.model.job import GeneratorCall, JobSpec, Role
from windlass.model.records import ExperimentRecord, Recipe, TrialRecord
from windlass.model.wire import CreateTrial
from windlass.packaging.params import describe_params
from windlass.packaging.provenance import collect


def add_generator(
    client: Client, experiment: ExperimentRecord, generator: Callable[..., Any], wish: Wish
) -> Trial[Any]:
    """The trial of a generator, which runs from now on; or the one that its identity made."""
    given, params = checked(generator, wish)
    # Before there is a trial that could be without its author.
    building = hold(client.transport, experiment)
    try:
        request = request_for(experiment, generator, params, wish, building.holder)
        record = client.transport.ask("POST", "/trials", TrialRecord, body=request)
        trial: Trial[Any] = Trial(client.transport, record)
        if not _is_new(building, record):
            building.release()
            return trial
    except BaseException:  # whatever it is, the experiment is not held for ever
        building.release()
        raise
    start = building.start_async if _is_async(generator) else building.start
    # A copy: what the author keeps of it is refreshed in another thread.
    start(Trial(client.transport, record), generator, given)
    return trial


def add_to(trial: TrialRecord, client: Client, what: Any, wish: Wish) -> Trial[Any]:
    """A trial that is part of another, whose generator adds it; it has its parameters, too."""
    if not isinstance(trial.spec.roles[0].executable, GeneratorCall):
        raise InvalidArgument(
            f"Trial {trial.id} ({trial.name}) has no generator: nothing can be added to it.",
            hint="Add it to the experiment: exp.add(...)",
        )
    building = known_building(client.transport, trial.experiment_id)
    if building is not None:
        record = building.experiment
    else:
        path = path_of("experiments", trial.experiment_id)
        record = client.transport.ask("GET", path, ExperimentRecord)
    return add(Experiment(client.transport, record), client, what, wish)


def checked(generator: Callable[..., Any], wish: Wish) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The arguments of a generator as given, and as recorded, with its defaults.

    All that is wrong is told before anything is made.
    """
    problems = [text for _, text in check_wish(wish)]
    args = wish.args if wish.args is not None else {}
    name = name_of(generator)
    if not isinstance(args, Mapping) or not all(isinstance(each, str) for each in args):
        problems.append(f"args: {shown(args)}; a generator takes its arguments by name: {{...}}")
        args = {}
    if wish.env:
        problems.append("env: a generator runs in this process; give env= to trial.add in it")
    if wish.auxiliary:
        problems.append("auxiliary: a generator is none; add a job that is: exp.add(wl.Job(...))")
    if problems:
        raise InvalidArgument.of(problems, where=f"exp.add({name})")
    if inspect.isclass(generator):
        raise InvalidArgument(
            f"exp.add: {name} is a class.", hint="Add a function: def build(trial, ...)"
        )
    if inspect.isgeneratorfunction(generator) or inspect.isasyncgenfunction(generator):
        raise Unsupported(
            f"exp.add: {name} has a yield in it, and what it yields goes nowhere.",
            hint=f"Add its jobs one by one: def {name}(trial, ...): trial.add(job, args={{...}})",
        )
    try:
        bound = bind(generator, (None,), args)
    except TypeError as error:
        raise InvalidArgument(f"exp.add: {error}.", hint=_as_generator(generator)) from None
    named = list(inspect.signature(generator).parameters.values())[1:]
    plain = [each.name for each in named if each.kind is not each.VAR_KEYWORD]
    defaults = {name: bound[name] for name in plain if name in bound}
    return dict(args), {**defaults, **args}


def _as_generator(generator: Callable[..., Any]) -> str:
    """What a function is taken for; one that was to run as a trial itself is told how it can."""
    name = name_of(generator)
    return (
        f"A plain function is a generator: it is given its trial first, def {name}(trial, ...), "
        "and adds jobs to it.\n"
        f"To run it as a trial of its own: exp.add(wl.Job(wl.PythonFunction({name})), "
        "args={...}), or decorate it with @wl.run."
    )


def request_for(
    experiment: ExperimentRecord,
    generator: Callable[..., Any],
    params: Mapping[str, Any],
    wish: Wish,
    holder: str,
) -> CreateTrial:
    """The request for the trial of a generator."""
    qualname = getattr(generator, "__qualname__", type(generator).__qualname__)
    call = GeneratorCall(qualname=qualname[:1024], holder=holder)
    identity = wish.identity or ""
    return CreateTrial(
        key=key_of(experiment, identity) if identity else uuid.uuid4().hex,
        experiment=experiment.name,
        experiment_id=experiment.id,
        name=wish.name or name_of(generator),
        spec=JobSpec(roles=(Role(executable=call),)),
        params={**wish.inherited, **describe_params(params)},
        provenance=collect(),
        labels=tuple(wish.labels),
        parent_id=wish.parent_id,
        recipe=Recipe(identity=identity),
    )


def _is_new(building: Building, record: TrialRecord) -> bool:
    """Whether it was made just now: then its generator is yet to run."""
    executable = record.spec.roles[0].executable
    is_ours = isinstance(executable, GeneratorCall) and executable.holder == building.holder
    return is_ours and not building.is_started(record.id)


def _is_async(generator: Callable[..., Any]) -> bool:
    plain = getattr(generator, "func", generator)  # of a functools.partial
    call = getattr(plain, "__call__", None)  # noqa: B004 -- of an object that is called
    return inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(call)
