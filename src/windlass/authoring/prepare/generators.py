"""Generators, which are functions that add jobs to an experiment one by one.

A generator runs in the user's process, not on the server. It can therefore use local variables, and
you can debug it. The server records a trial for the generator from the start. This trial and its
child trials survive the end of the user's process.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from windlass.authoring.prepare.add_to_experiment import (
    AddOptions,
    add,
    check_add_options,
    idempotency_key,
)
from windlass.authoring.public.run_decorator import bind, name_of
from windlass.client.client import Client
from windlass.client.connection.transport import request_path
from windlass.client.resources.experiment.builder import ExperimentBuilder, find_builder, hold
from windlass.client.resources.experiment.experiment import Experiment
from windlass.client.resources.trial.trial import Trial
from windlass.model.errors import InvalidArgument, Unsupported, shown
from windlass.model.job import GeneratorCall, JobSpec, Role
from windlass.model.records import ExperimentRecord, Recipe, TrialRecord
from windlass.model.requests import CreateTrial
from windlass.packaging.params import describe_params
from windlass.packaging.provenance import collect


def add_generator(
    client: Client, experiment: ExperimentRecord, generator: Callable[..., Any], options: AddOptions
) -> Trial[Any]:
    """Start a generator in the background and return its trial.

    If a trial with the same identity exists, return that trial.
    """
    arguments, params = check_generator(generator, options)
    # Take the lease on the experiment first, so that the trial always has a lease holder.
    building = hold(client.transport, experiment)
    try:
        request = build_request(experiment, generator, params, options, building.holder)
        record = client.transport.ask("POST", "/trials", TrialRecord, body=request)
        trial: Trial[Any] = Trial(client.transport, record)
        if not _is_new(building, record):
            building.release()
            return trial
    except BaseException:  # KeyboardInterrupt must release it, too
        building.release()
        raise
    start = building.start_async if _is_async(generator) else building.start
    # The generator's thread refreshes its trial, so it gets its own copy.
    start(Trial(client.transport, record), generator, arguments)
    return trial


def add_to(trial: TrialRecord, client: Client, what: Any, options: AddOptions) -> Trial[Any]:
    """Add a child trial to a generator's trial. The child inherits the parent's parameters."""
    if not isinstance(trial.spec.roles[0].executable, GeneratorCall):
        raise InvalidArgument(
            f"Trial {trial.id} ({trial.name}) has no generator, so nothing can be added to it.",
            hint="Add it to the experiment: exp.add(...)",
        )
    building = find_builder(client.transport, trial.experiment_id)
    if building is not None:
        record = building.experiment
    else:
        path = request_path("experiments", trial.experiment_id)
        record = client.transport.ask("GET", path, ExperimentRecord)
    return add(Experiment(client.transport, record), client, what, options)


def check_generator(
    generator: Callable[..., Any], options: AddOptions
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Check a generator's arguments. One error lists all problems.

    Return the arguments for the call and the arguments to record. The recorded arguments include
    defaults.
    """
    problems = [text for _, text in check_add_options(options)]
    args = options.args if options.args is not None else {}
    name = name_of(generator)
    if not isinstance(args, Mapping) or not all(isinstance(key, str) for key in args):
        problems.append(f"args: {shown(args)}; a generator takes its arguments by name: {{...}}")
        args = {}
    if options.env:
        problems.append(
            "env: a generator runs in this process; pass env= to trial.add in the generator"
        )
    if options.auxiliary:
        problems.append(
            "auxiliary: a generator cannot be auxiliary; add an auxiliary job: "
            "exp.add(wl.Job(...), auxiliary=True)"
        )
    if problems:
        raise InvalidArgument.of(problems, where=f"exp.add({name})")
    if inspect.isclass(generator):
        raise InvalidArgument(
            f"exp.add: {name} is a class.", hint="Add a function: def build(trial, ...)"
        )
    if inspect.isgeneratorfunction(generator) or inspect.isasyncgenfunction(generator):
        raise Unsupported(
            f"exp.add: {name} contains a yield, but Windlass ignores yielded values.",
            hint=f"Add its jobs one by one: def {name}(trial, ...): trial.add(job, args={{...}})",
        )
    try:
        bound = bind(generator, (None,), args)
    except TypeError as error:
        raise InvalidArgument(f"exp.add: {error}.", hint=_generator_hint(generator)) from None
    named = list(inspect.signature(generator).parameters.values())[1:]
    plain = [parameter.name for parameter in named if parameter.kind is not parameter.VAR_KEYWORD]
    defaults = {name: bound[name] for name in plain if name in bound}
    return dict(args), {**defaults, **args}


def _generator_hint(generator: Callable[..., Any]) -> str:
    """Return a hint for a function that cannot be called as a generator."""
    name = name_of(generator)
    return (
        "Windlass calls a plain function as a generator, with its trial as the first "
        f"argument: def {name}(trial, ...).\n"
        f"To run the function as a trial: exp.add(wl.Job(wl.PythonFunction({name})), "
        "args={...}), or decorate it with @wl.run."
    )


def build_request(
    experiment: ExperimentRecord,
    generator: Callable[..., Any],
    params: Mapping[str, Any],
    options: AddOptions,
    holder: str,
) -> CreateTrial:
    """Build the request for a generator's trial."""
    qualname = getattr(generator, "__qualname__", type(generator).__qualname__)
    call = GeneratorCall(qualname=qualname[:1024], holder=holder)
    identity = options.identity or ""
    return CreateTrial(
        key=idempotency_key(experiment, identity) if identity else uuid.uuid4().hex,
        experiment=experiment.name,
        experiment_id=experiment.id,
        name=options.name or name_of(generator),
        spec=JobSpec(roles=(Role(executable=call),)),
        params={**options.inherited, **describe_params(params)},
        provenance=collect(),
        labels=tuple(options.labels),
        parent_id=options.parent_id,
        recipe=Recipe(identity=identity),
    )


def _is_new(building: ExperimentBuilder, record: TrialRecord) -> bool:
    """Return whether this call created the generator's trial and must start the generator."""
    executable = record.spec.roles[0].executable
    is_ours = isinstance(executable, GeneratorCall) and executable.holder == building.holder
    return is_ours and not building.is_started(record.id)


def _is_async(generator: Callable[..., Any]) -> bool:
    plain = getattr(generator, "func", generator)  # a functools.partial has func
    call = getattr(plain, "__call__", None)  # noqa: B004 -- of an object that is called
    return inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(call)
