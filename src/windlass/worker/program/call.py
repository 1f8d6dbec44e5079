"""Calls a user's function in its own process and stores the result or the exception."""

from __future__ import annotations

import os
import pickle
import reprlib
import sys

from windlass.worker.common.atomic_files import remove_if_there, retry_write, write_json
from windlass.worker.common.file_reads import read_json, retried
from windlass.worker.common.mask_secrets import mask_text
from windlass.worker.common.own_attempt import moved_dir
from windlass.worker.program.call_file import open_blob_file, open_call
from windlass.worker.program.failure import Failure
from windlass.worker.program.main_module import MainModule
from windlass.worker.program.pickle_values import (
    SerializationFault,
    dump_value,
    dumps_exception,
    load_cloudpickle,
)
from windlass.worker.startup.windlass_imports import use_copies
from windlass.worker.startup.windlass_streams import order_streams
from windlass.worker.supervise.child_process import copied_paths, import_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from io import BufferedIOBase
    from types import ModuleType
    from typing import Any

TEXT_LIMIT = 200
_LONG_TEXT = 100_000


def run_call(attempt_dir: str, public: Mapping[str, ModuleType] | None = None) -> None:
    """Call the function named in the launch file, then exit as a Python program would.

    `public` has the modules that `import windlass` would load, if they are already loaded.
    """
    supervisor = os.getppid()
    launch = retried(lambda: read_json(os.path.join(attempt_dir, "launch.json")))
    if launch is None:
        sys.exit("windlass: the launch file is missing")
    sys.argv = [launch["executable"]["qualname"]]
    _set_import_paths(launch)
    order_streams()
    # Read the secrets first, because user code may change the environment.
    secrets = [os.environ[name] for name in launch["secret_names"] if name in os.environ]
    failure = Failure(attempt_dir, launch, secrets)
    try:
        main = _prepare_main(launch, public or {})
        function, args, kwargs = load_payload(
            launch["executable"]["payload"], launch["blobs"], main
        )
        _set_own_file(function, launch)
        if launch["executable"].get("changes"):
            args, kwargs = _changed(function, args, kwargs, launch["executable"]["changes"])
        value = function(*args, **kwargs)
    except SystemExit:
        raise
    except KeyboardInterrupt as error:
        sys.last_value = error  # exit handlers read this variable after an uncaught exception
        failure.attempt_dir = moved_dir(attempt_dir, supervisor)
        failure.show_interrupt(error)
        sys.exit(130)
    except BaseException as error:  # noqa: BLE001  # every exception of user code is recorded
        sys.last_value = error
        failure.attempt_dir = moved_dir(attempt_dir, supervisor)
        failure.show(error)
        failure.record(error, dumps_exception)
        sys.exit(1)
    if not launch.get("keeps_value", True):
        return  # a different replica's result becomes the job's result
    failure.attempt_dir = moved_dir(attempt_dir, supervisor)
    try:
        store_result(failure.attempt_dir, value, secrets)
    except SerializationFault as fault:
        failure.record_unpicklable(str(fault))
        sys.exit(1)
    except OSError as error:
        failure.record_unstored(error)
        sys.exit(1)


def _prepare_main(launch: Mapping[str, Any], public: Mapping[str, ModuleType]) -> MainModule | None:
    """Replace `__main__`, if the call refers to the author's `__main__`."""
    if launch["executable"].get("main") is None:
        return None
    if launch["executable"]["main"].get("is_run"):
        sys.modules.update(public)  # nearly every such script imports windlass first
    main = MainModule(launch)
    main.run_script()
    return main


def load_payload(
    path: str, blobs: str, main: MainModule | None = None
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Read a pickled function, its positional arguments and its keyword arguments from a file.

    Large values are blobs in the store `blobs`. The names of `__main__` that were pickled with the
    call are added to `main`.
    """
    payload = None
    try:
        payload = _load(path, blobs, main)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cloudpickle":
            raise
    if payload is None:  # outside of the handler, so that later errors do not mention this one
        load_cloudpickle()
        payload = _load(path, blobs, main)
    kind, *where = payload["function"]
    function = where[0] if kind == "value" else _find_function(*where)
    return function, payload["args"], payload["kwargs"]


def _load(path: str, blobs: str, main: MainModule | None) -> dict[str, Any]:
    with open_call(path, blobs) as file:
        # One unpickler, because later pickles refer to objects in the first one.
        unpickler = pickle.Unpickler(file)  # noqa: S301  # the author's code and process
        payload: dict[str, Any] = unpickler.load()
        if main is not None:
            main.add_values(unpickler)
        load_source_lines(file)
    return payload


def load_source_lines(file: BufferedIOBase) -> None:
    """Read the sources of functions without a file, stored after the call in the same file.

    Tracebacks and `inspect.getsource` then find these sources, as they did in the caller's process.
    """
    if not file.peek(1):  # type: ignore[attr-defined]  # a buffered reader
        return
    import linecache

    for name, first, block in pickle.load(file)["sources"]:  # noqa: S301  # as above
        known = linecache.cache.get(name)
        lines = list(known[2]) if known is not None and len(known) > 1 else []
        added = block.splitlines(keepends=True)
        lines += ["\n"] * (first - 1 + len(added) - len(lines))
        lines[first - 1 : first - 1 + len(added)] = added
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def _changed(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], path: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call that is repeated with changes.

    The file `path` contains the changed values, by parameter name.
    """
    import inspect

    changes: dict[str, Any] = {}
    with open_blob_file(path) as file:  # may contain several sets of changes
        while file.peek(1):
            changes.update(pickle.load(file))  # noqa: S301  # the author wrote the file
    bound = inspect.signature(function).bind_partial(*args, **kwargs)
    bound.apply_defaults()  # otherwise the values after an omitted argument would be lost
    parameters = bound.signature.parameters
    for name in changes.keys() & parameters.keys():
        is_rest = parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        bound.arguments[name] = tuple(changes[name]) if is_rest else changes[name]
    in_order = {name: bound.arguments[name] for name in parameters if name in bound.arguments}
    bound = inspect.BoundArguments(bound.signature, in_order)
    others = {name: value for name, value in changes.items() if name not in parameters}
    return bound.args, {**bound.kwargs, **others}


def store_result(attempt_dir: str, value: object, secrets: Sequence[str] = ()) -> None:
    """Write a value to `result.pkl` and its short repr to `result.json`.

    >>> import tempfile
    >>> attempt_dir = tempfile.mkdtemp()
    >>> store_result(attempt_dir, {"accuracy": 0.9})
    >>> pickle.load(open(os.path.join(attempt_dir, "result.pkl"), "rb"))
    {'accuracy': 0.9}
    """
    target = os.path.join(attempt_dir, "result.pkl")
    temporary = target + ".tmp"

    def attempt() -> None:
        write_json(os.path.join(attempt_dir, "result.json"), {"text": short_repr(value, secrets)})
        with open(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            dump_value(value, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)

    try:
        retry_write(attempt, "the result")
    except SerializationFault:
        remove_if_there(temporary)
        remove_if_there(os.path.join(attempt_dir, "result.json"))
        raise


def short_repr(value: object, secrets: Sequence[str] = ()) -> str:
    """Return a value's repr as one line of at most 200 characters, with secrets masked.

    >>> short_repr([1, 2])
    '[1, 2]'
    >>> short_repr({"weights": list(range(10**5))})[-13:]
    '38, 39, ...]}'
    >>> len(short_repr("x" * 10**6)) <= 200
    True
    """
    try:
        # Mask secrets in a longer text, because half a secret at the cut would not be recognized.
        text = _Glance(_LONG_TEXT if secrets else TEXT_LIMIT).repr(value)
    except Exception as error:  # noqa: BLE001  # a repr of user code may raise any error
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    text = " ".join(mask_text(text, secrets).split())
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"


def _set_import_paths(launch: Mapping[str, Any]) -> None:
    """Make the same modules importable as in the process that submitted the function."""
    ours = import_paths(launch)
    sys.path[:] = [*ours, *(path for path in sys.path if path not in ours)]
    sys.path += [path for path in launch["extra_paths"] if path not in sys.path]
    use_copies(sys.path, copied_paths(launch))


def _set_own_file(function: Callable[..., Any], launch: Mapping[str, Any]) -> None:
    """Set the `__file__` that a function pickled by value sees to its file's restored copy."""
    names = getattr(function, "__globals__", {})
    file, root = names.get("__file__"), launch["root"].rstrip("/") + "/"
    if launch["root"] and isinstance(file, str) and file.startswith(root):
        restored = os.path.join(launch["work"], file[len(root) :])
        if os.path.exists(restored):
            names["__file__"] = restored


def _find_function(module_name: str, qualname: str) -> Callable[..., Any]:
    __import__(module_name)
    function: Any = sys.modules[module_name]
    for name in qualname.split("."):
        function = getattr(function, name)
    # `wl.run` replaced the function with an object that wraps it.
    return function.__wrapped__ if hasattr(function, "__wrapped__") else function  # type: ignore[no-any-return]


class _Glance(reprlib.Repr):
    """Computes a repr that contains only the beginning of each large container."""

    def __init__(self, longest: int) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = 40
        self.maxstring = self.maxlong = self.maxother = longest

    def repr1(self, x: Any, level: int) -> str:
        # A NumPy number is shown as a plain number.
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(x, numpy.generic) and x.dtype.kind in "biufc":
            return str(x)
        return super().repr1(x, level)

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        if level <= 0 or len(x) > self.maxdict:
            return super().repr_dict(x, level)
        # Keep the dictionary's order. The base class sorts the keys.
        items = (f"{self.repr1(k, level - 1)}: {self.repr1(v, level - 1)}" for k, v in x.items())
        return "{" + ", ".join(items) + "}"
