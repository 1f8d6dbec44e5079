"""Implements `@wl.run`, which makes a function run as a recorded trial.

Most scripts import this module first, so it must load quickly. Modules that are needed only for
options or for calls are imported inside functions. These include `typing` and `inspect`, each of
which takes as long to import as Python takes to start.
"""

from __future__ import annotations

import functools
import os

from windlass.model.errors import InvalidArgument, Unsupported, WindlassError, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Generic, ParamSpec, TypeVar, overload

    from windlass.authoring.prepare.draft import Plan
    from windlass.authoring.prepare.map_calls import MapCall, MapCalls
    from windlass.authoring.prepare.options import Options
    from windlass.authoring.public.executors import Executor
    from windlass.authoring.public.jobs import Job
    from windlass.client.client import Client
    from windlass.client.resources.trial.outcome import Outcome
    from windlass.client.resources.trial.trial import Trial
    from windlass.client.terminal.view import View
    from windlass.packaging.draft import Draft

    P = ParamSpec("P")
    R = TypeVar("R")
else:
    P = R = None

    class Generic:
        """Replaces `typing.Generic` at run time, so that `wl.Function[..., float]` works."""

        def __class_getitem__(cls, parameters):
            return cls

    def overload(function):
        """Replace `typing.overload` at run time."""
        return function


# The code flags of generators, coroutines and asynchronous generators, as in `inspect`.
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200


class Function(Generic[P, R]):
    """A function that runs as a trial and returns the trial's value. `wl.run` creates it.

    Calls inside a trial create no further trials. A call then runs the function directly, and `map`
    processes one item after another.
    """

    __wrapped__: Callable[P, R]

    def __init__(self, function: Callable[P, R], options: Options | None = None) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._chosen = options

    @property
    def _options(self) -> Options:
        from windlass.authoring.prepare.options import Options

        return self._chosen or Options()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function as a trial and show its output. Return its value or raise its error."""
        if _is_inside_a_trial():
            _refuse_while_loading(self._name)
            return self._function(*args, **kwargs)
        bound = self._bind(args, kwargs)
        outcome = self._run_and_watch(args, kwargs, bound)
        if outcome.error is not None:
            raise outcome.error
        value: R = outcome.value
        return value

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Trial[R]:
        """Start a trial and return it without waiting. The trial outlives this process."""
        bound = self._bind(args, kwargs)
        try:
            client, plan = self._plan()
            return client.submit(_draft(plan, self._function, args, kwargs, bound))
        except WindlassError as error:
            failure = error.with_traceback(None)  # internal frames do not help users
        raise failure

    def dry_run(self, *args: P.args, **kwargs: P.kwargs) -> Trial[R]:
        """Show what `submit` would run. Nothing is started, not even the server."""
        from windlass.client.dry_run.client import DryClient

        bound = self._bind(args, kwargs)
        try:
            client, plan = self._plan(client=DryClient())
            return client.submit(_draft(plan, self._function, args, kwargs, bound))
        except WindlassError as error:
            failure = error.with_traceback(None)
        raise failure

    def map(
        self,
        *iterables: Iterable[Any],
        return_exceptions: bool = False,
        **named: Iterable[Any],
    ) -> Iterator[R]:
        """Run one trial per item and yield the values in the order of the items.

        With several lists, each trial takes one value of each list, as with Python's `map`. A list
        may be named after an argument: `train.map(lr=[0.1, 0.01], epochs=[3, 5])`.

        Trials are submitted ahead of time, up to 1,000 at once. They run in parallel as far as
        capacity allows. The iterator waits for each value. If a trial fails, the iterator raises
        its error and stops all unfinished trials. With `return_exceptions=True`, the iterator
        yields the error instead, and the other trials continue.
        """
        from windlass.authoring.prepare.map_calls import map_calls

        return self._values(map_calls(self._name, iterables, named), return_exceptions)

    def starmap(
        self,
        items: Iterable[Sequence[Any] | Mapping[str, Any]],
        *,
        return_exceptions: bool = False,
    ) -> Iterator[R]:
        """Do the same as `map`, but each item contains all arguments of a trial.

        An item is a list of positional arguments or a mapping of keyword arguments. For example,
        `train.starmap([(0.1, 3), (0.01, 5)])` runs two trials with two arguments each, and so does
        `train.starmap([{"lr": 0.1, "epochs": 3}, {"lr": 0.01, "epochs": 5}])`.
        """
        from windlass.authoring.prepare.map_calls import starmap_calls

        return self._values(starmap_calls(self._name, items), return_exceptions)

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function in this process without recording a trial."""
        return self._function(*args, **kwargs)

    def options(self, **changes: Any) -> Function[P, R]:
        """Return a copy of the function with changed options: `train.options(cpus=4)(0.1)`."""
        return Function(self._function, self._options.changed(changes, f"{self._name}.options"))

    def job(self) -> Job:
        """Return a `wl.Job` that runs this function with its options, for `Experiment.add`.

        ```python
        @wl.run(cpus=2)
        def train(lr):
            return 1 - lr


        print(train.job())
        ```
        """
        return self._options.job(self)

    def _values(self, calls: MapCalls, return_exceptions: bool) -> Iterator[R]:
        if _is_inside_a_trial():
            _refuse_while_loading(self._name)
            return _local_values(self._function, calls, return_exceptions)
        from windlass.authoring.prepare.sweep import Sweep

        def draft(plan: Plan, call: MapCall) -> Draft:
            return _draft(plan, self._function, *call, self._bind(*call))

        sweep = Sweep(self._name, calls, self._plan, draft)
        sweep.begin()
        return sweep.values(return_exceptions=return_exceptions)

    @property
    def _name(self) -> str:
        return name_of(self._function)

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return bind(self._function, args, kwargs)

    def _run_and_watch(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], bound: dict[str, Any]
    ) -> Outcome:
        """Run the trial and return its outcome. Errors are stripped of internal stack frames."""
        from windlass.client.resources.trial.outcome import Outcome
        from windlass.client.terminal.watch_trial import run_and_watch

        try:
            with _view() as view:
                client, plan = self._plan(view)
                view.stage(f"{self._name}: sending")
                draft = _draft(plan, self._function, args, kwargs, bound)
                trial, end = run_and_watch(client, draft, view)
        except (WindlassError, KeyboardInterrupt) as error:
            return Outcome(error=error.with_traceback(None))
        return trial.outcome(end, view.has_shown)

    def _plan(self, view: View | None = None, client: Client | None = None) -> tuple[Client, Plan]:
        from windlass.client.connection.in_pod import check_asking

        check_asking()
        from windlass.authoring.prepare.call_site import read_call_site
        from windlass.authoring.prepare.draft import build_plan
        from windlass.client.client import default_client

        if view is not None:
            view.stage(f"{self._name}: looking for the server")
        client = client or default_client()
        _ = client.transport.endpoint
        if view is not None:
            view.stage(f"{self._name}: packaging")
        call_site = read_call_site(self._function)
        return client, build_plan(client, self._options, self._name, call_site)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle. Secrets are pickled without their values."""
        if self._chosen is None:
            return self.__dict__
        return {**self.__dict__, "_chosen": self._chosen.without_secret_values()}

    def __repr__(self) -> str:
        return f"<windlass function {self._name}>"


@overload
def run(function: Callable[P, R], /) -> Function[P, R]: ...


@overload
def run(  # noqa: F811 -- ruff does not recognize the conditional import of overload
    *,
    accelerator: str | None = None,
    cpus: float | None = None,
    memory: str | int | None = None,
    backend: str | None = None,
    container_image: str | None = None,
    env: Mapping[str, str] | None = None,
    secrets: Sequence[str] | Mapping[str, str] | None = None,
    packages: Sequence[str] | str | None = None,
    retries: int | None = None,
    timeout: str | float | None = None,
    name: str | None = None,
    experiment: str | None = None,
    cluster: str | None = None,
    volumes: Mapping[str, str | os.PathLike[str]] | None = None,
    spot: bool = False,
    replicas: int | None = None,
    framework: str | None = None,
    template: str | None = None,
    keep_last: int | None = None,
    keep_best: str | None = None,
    executor: Executor | None = None,
) -> Callable[[Callable[P, R]], Function[P, R]]: ...


def run(  # noqa: F811 -- as above
    function: Callable[..., Any] | None = None, /, **options: Any
) -> Any:
    """Make a function run as a recorded trial.

    ```python
    @wl.run(cpus=2, timeout="4h")
    def train(lr):
        return 1 - lr


    train(0.1)  # blocks, shows the log, and returns the value
    train.submit(0.1)  # returns a Trial at once
    train.map([0.1, 0.01])  # runs one trial per item, and yields the values in order
    train.local(0.1)  # runs in this process
    train.dry_run(0.1)  # shows what would run, and starts nothing
    ```

    Args:
        accelerator: the accelerators per replica, such as `"a100"`, `"a100x2"`, `"gpu"` or `"cpu"`.
        cpus: the CPUs to reserve per replica (default: 1).
        memory: the memory to reserve per replica, such as `"16GB"`.
        backend: the backend: `"local"` or `"kubernetes"`.
        container_image: the container image, for backends that use containers.
        env: environment variables.
        secrets: names of environment variables to copy from this process, or a mapping of names to
            values. Values are never recorded, and are masked in the log.
        packages: packages to install in addition to the packages of this environment, such as
            `["scikit-learn", "pandas==2.2"]`, or the path of a requirements file.
        retries: the number of restarts after failures (default: 0).
        timeout: the longest time that the trial can run, such as `"4h"`.
        name: the name of the trials (default: the function's name).
        experiment: the experiment to add the trials to (default: the function's name).
        cluster: the cluster to run on, for backends with several clusters.
        volumes: other files and folders, by their path in the trial: `{"data": "/path/to/data"}`.
        spot: whether the trial can run on a spot machine, which the provider can reclaim at any
            time.
        replicas: the number of processes that run the function at the same time (default: 1). Each
            process gets the same arguments and the full resources above. The trial returns the
            value from rank 0.
        framework: the framework that connects the replicas: `"torch"`, `"tensorflow"`, `"jax"`.
        template: the name of a template (`wl.create_template`), which fills in unset options.
        keep_last: the number of newest checkpoints to keep (default: all, or 1 with `keep_best`).
        keep_best: the number of best checkpoints to keep as well, and the metric that ranks them:
            `"min val_loss"`, `"3 max accuracy"`.
        executor: the backend and all its options, in place of `backend` and the resources:
            `wl.Kubernetes(namespace="research", accelerator="a100x2")`.
    """
    chosen = _check_options(options) if options else None
    if function is not None:
        return _decorate(function, chosen)
    return lambda decorated: _decorate(decorated, chosen)


def _check_options(options: Mapping[str, Any]) -> Options:
    from windlass.authoring.prepare.options import Options

    return Options().changed(options, "wl.run")


def _decorate(function: Any, options: Options | None) -> Function[Any, Any]:
    if isinstance(function, Function):
        name = name_of(function)
        raise InvalidArgument(
            f"{name} is already decorated with wl.run.", hint=f"Use {name}.options(...) instead."
        )
    check_function(function, "wl.run decorates functions")
    return Function(function, options)


def check_function(function: Any, wanted: str) -> None:
    """Raise an error if a callable cannot run as a trial. The error starts with `wanted`."""
    name = getattr(function, "__qualname__", None) or shown(function)
    is_method = isinstance(function, (staticmethod, classmethod)) or _is_method(function)
    if is_method and not isinstance(function, type):
        raise Unsupported(
            f"{name} is a method, but a trial runs a plain function.",
            hint="Move the function out of the class and pass the object as an argument.",
        )
    if not callable(function) or isinstance(function, type):
        raise InvalidArgument(
            f"{wanted}; {name} is a {type(function).__name__}.",
            hint="Write a function that does the work, and decorate the function."
            if wanted.startswith("wl.run")
            else "Write a function that does the work, and pass the function.",
        )
    flags = _code_flags(function)
    if flags & (_GENERATOR | _ASYNC_GENERATOR):
        raise Unsupported(
            f"{name} is a generator function, but a trial returns one value at its end.",
            hint=f"Return a list of the values: def {name}(...): return list(...)",
        )
    if flags & _COROUTINE:
        raise Unsupported(
            f"{name} is a coroutine function, but a trial runs a plain function.",
            hint=f"Wrap it: def {name}(...): return asyncio.run(...); to wait for a trial in "
            "asynchronous code: await train.submit(...)",
        )


def _code_flags(function: Any) -> int:
    """Return a function's code flags, or 0 for a callable without Python code."""
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)  # a bound method has __func__
    return getattr(getattr(function, "__code__", None), "co_flags", 0)


def name_of(function: Callable[..., Any]) -> str:
    """Return the default name for trials of a function."""
    plain = getattr(function, "func", function)  # a functools.partial has func
    name: str = getattr(plain, "__name__", type(plain).__name__)
    return "lambda" if name == "<lambda>" else name


def bind(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Bind arguments to a function's parameters. Raise a `TypeError` if they do not match."""
    import inspect

    try:
        signature = inspect.signature(function)
    except ValueError:  # some C functions have no signature
        return {"args": args, **kwargs}
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        unknown = _unknown_names(signature, kwargs) if "unexpected" not in str(error) else ""
        raise TypeError(f"{name_of(function)}{signature}: {error}{unknown}") from None
    bound.apply_defaults()
    return dict(bound.arguments)


def _unknown_names(signature: inspect.Signature, kwargs: Mapping[str, Any]) -> str:
    """Return text that names the unknown keyword arguments, or "" if there are none.

    Python's own error does not name them if a required argument is missing as well.
    """
    parameters = signature.parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return ""
    names = [shown(name) for name in kwargs if name not in signature.parameters]
    return f"; there is no {', no '.join(names)}" if names else ""


def _draft(
    plan: Plan,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    bound: Mapping[str, Any],
) -> Draft:
    from windlass.packaging.draft import Call

    return plan.draft([Call(function, args, kwargs)], bound)


def _is_method(function: Any) -> bool:
    parent = getattr(function, "__qualname__", "").rpartition(".")[0]
    return bool(parent) and not parent.endswith("<locals>")


def _is_inside_a_trial() -> bool:
    # Calls inside an external trial do create trials, because Windlass did not start the external
    # trial and reserves nothing for it.
    return "WINDLASS_TRIAL_ID" in os.environ and "WINDLASS_EXTERNAL" not in os.environ


def _refuse_while_loading(name: str) -> None:
    from windlass.client.connection.script_loading import refuse_while_loading

    refuse_while_loading(name)


def _local_values(
    function: Callable[..., Any], calls: MapCalls, return_exceptions: bool
) -> Iterator[Any]:
    """Call the function in this process, as `map` does inside a trial."""
    for call in calls:
        try:
            yield function(*call.args, **call.kwargs)
        except Exception as error:  # an error from the user's function
            if not return_exceptions:
                raise
            yield error


def _view() -> View:
    from windlass.client.terminal.view import View

    return View()
