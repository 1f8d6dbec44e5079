"""Pickles a function and its arguments.

A function that a replica can import is pickled by name. Any other function is pickled by value.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from windlass.model.errors import SerializationError
from windlass.model.text.quantities import format_size
from windlass.packaging.large_values import ByteCounter, LargeValues, PackedCall, PickleFile
from windlass.packaging.main_references import MainReferences
from windlass.packaging.main_script import MainScript
from windlass.packaging.params import describe_params
from windlass.packaging.project_files.project_root import is_installed
from windlass.worker.program.unpicklable_part import find_unpicklable, function_parts, refusal

__all__ = ["LARGEST_PAYLOAD", "describe_params", "pack_arguments", "pack_call"]

LARGEST_PAYLOAD = 512 * 1024 * 1024
_VERSION = 1
_PROTOCOL = 5  # readable by every Python since 3.8
_registry = threading.RLock()
_at_home: dict[str, ModuleType] = {}  # modules known to be installed, which are not checked again


def pack_call(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    root: Path,
    known: LargeValues | None = None,
    describe: Callable[[Sequence[Any]], bytes] = lambda _: b"",
    outside: Sequence[str] = (),
    script: MainScript | None = None,
) -> PackedCall:
    """Pickle a function and its arguments. Raise a SerializationError that names any failing part.

    A replica can import modules in the project `root` and in the folders `outside` by name.

    `describe` gets the functions and classes that are pickled by value. Its result, a pickle or
    b"", is appended to the call's pickle.

    Large values, such as arrays, become separate blobs, which calls with the same value share.
    `known` has earlier calls' values, which are not hashed again. `script` is the script that this
    process runs.

    >>> import pickle
    >>> pickle.loads(pack_call(os.path.join, ("a", "b"), {}, Path("/")).payload)["args"]
    ('a', 'b')
    """
    import cloudpickle

    folders = (str(root), *outside)
    reference = _reference(fn, folders)
    function = ("ref", *reference) if reference else ("value", fn)
    call = {
        "version": _VERSION,
        "function": function,
        "args": tuple(args),
        "kwargs": dict(kwargs),
    }
    file = PickleFile(known if known is not None else LargeValues())
    with _modules_by_value(folders):
        try:
            by_value, uses_main = _dump(call, file, script or MainScript())
        except Exception as error:  # a user's class may raise any error
            raise _explained(fn, call, cloudpickle.dumps, error) from error
    file.write(describe(by_value))
    packed = file.finish()._replace(uses_main=uses_main)
    if packed.size > LARGEST_PAYLOAD:
        raise SerializationError(
            f"The call of {_name(fn)} is {format_size(packed.size)}; at most "
            f"{format_size(LARGEST_PAYLOAD)} can be sent.",
            hint="Pass a path and read the data inside the function, or mount it with volumes=.",
        )
    return packed


def find_large_parts(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    folders: Sequence[str],
    limit: int,
) -> list[tuple[str, int]]:
    """Return a call's arguments and variables larger than `limit` bytes, with their sizes.

    A replica can import modules in `folders` by name.
    """
    import cloudpickle

    name = getattr(fn, "__name__", type(fn).__name__)
    values = [
        (f"the argument {key!r} of {name}", value)
        for key, value in _bound(fn, args, kwargs).items()
    ]
    if _reference(fn, folders) is None and hasattr(fn, "__code__"):
        values += function_parts(fn, name)
    parts: list[tuple[str, int]] = []
    with _modules_by_value(folders):
        for what, value in values:
            counter = ByteCounter()
            try:
                cloudpickle.Pickler(counter, protocol=_PROTOCOL).dump(value)
            except Exception:  # noqa: BLE001, S112 -- the whole call was packed: this is no failure
                continue
            if counter.size > limit:
                parts.append((what, counter.size))
    return parts


def _dump(call: object, file: PickleFile, script: MainScript) -> tuple[list[Any], bool]:
    """Pickle a call to a file, followed by the names that it uses in `__main__`.

    Return the functions and classes that were pickled by value, and whether the call uses
    `__main__`.
    """
    pickler = _pickler_class()(file, _PROTOCOL, script)
    pickler.dump(call)
    references: MainReferences = pickler.main
    if references.is_used:
        for part in references.parts(pickler.by_value):
            pickler.dump(part)
    return pickler.by_value, references.is_used


@lru_cache(maxsize=1)
def _pickler_class() -> Any:
    import cloudpickle

    def can_pickle(value: Any) -> bool:
        return refusal(value, cloudpickle.dumps) is None

    # cloudpickle is not typed.
    class CallPickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Lists the functions and classes that are pickled by value, and connects `__main__`."""

        def __init__(self, file: Any, protocol: int, script: MainScript) -> None:
            super().__init__(file, protocol=protocol)
            self.main = MainReferences(script, can_pickle)
            self.by_value: list[Any] = []

        def reducer_override(self, obj: Any) -> Any:
            by_name = self.main.reduce(obj)
            if by_name is not None:
                return by_name
            if isinstance(obj, FunctionType) and self.main.owns(obj):
                self.globals_ref.setdefault(id(obj.__globals__), self.main.globals)
            reduced = super().reducer_override(obj)
            is_code = isinstance(obj, (FunctionType, type)) and obj.__module__ != "builtins"
            if is_code and reduced is not NotImplemented:
                self.by_value.append(obj)
            return reduced

    return CallPickler


def pack_arguments(
    arguments: Mapping[str, Any], root: Path, script: MainScript | None = None
) -> bytes:
    """Pickle named arguments, which replace a pickled call's arguments in a rerun.

    `script` is the script that the trial runs again, if this process runs the same script.

    >>> import pickle
    >>> pickle.loads(pack_arguments({"lr": 0.1}, Path("/")))
    {'lr': 0.1}
    """
    import cloudpickle

    with _modules_by_value((str(root),)):
        try:
            file = BytesIO()
            _pickler_class()(file, _PROTOCOL, script or MainScript()).dump(dict(arguments))
            packed = file.getvalue()
        except Exception as error:  # a user's class may raise any error
            for name, value in arguments.items():
                if refusal(value, cloudpickle.dumps) is not None:
                    part = find_unpicklable(value, cloudpickle.dumps, f"argument {name!r}")
                    raise SerializationError(f"It cannot be sent: {part}.") from error
            raise SerializationError(f"The arguments cannot be sent: {error}.") from error
    if len(packed) > LARGEST_PAYLOAD:
        raise SerializationError(
            f"The arguments are {format_size(len(packed))}; at most "
            f"{format_size(LARGEST_PAYLOAD)} can be sent.",
            hint="Pass a path and read the data inside the function.",
        )
    return packed


def _reference(fn: Callable[..., Any], folders: Sequence[str]) -> tuple[str, str] | None:
    """Return the module and name under which a function can be imported.

    Return None if a replica cannot import the function.
    """
    module_name = getattr(fn, "__module__", None)
    qualname = getattr(fn, "__qualname__", None)
    if not isinstance(module_name, str) or not isinstance(qualname, str):
        return None
    if module_name == "__main__" or "<" in qualname:
        return None
    module = sys.modules.get(module_name)
    if module is None or not _travels(module, folders) or _is_being_imported(module):
        return None
    value: Any = module
    for part in qualname.split("."):
        value = getattr(value, part, None)
        if value is None:
            return None
    # The replica unwraps `__wrapped__` once. Functions with any other wrapper are pickled by value.
    is_it = getattr(value, "__wrapped__", value) is fn
    return (module_name, qualname) if is_it else None


def _is_being_imported(module: ModuleType) -> bool:
    """Return True if a module's top-level code is still running.

    If so, importing it in the replica would run the same call again.
    """
    return bool(getattr(module.__spec__, "_initializing", False))


def _travels(module: ModuleType, folders: Sequence[str]) -> bool:
    """Return True if a replica can import a module."""
    if module.__name__ == "__main__" or not _is_found_by_name(module, folders):
        return False
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        # A built-in module or a namespace package. All other modules here were created at run time.
        return module.__name__ in sys.builtin_module_names or _is_namespace(module, folders)
    return _is_ours(module) or _is_known_file(file, tuple(folders))


def _is_found_by_name(module: ModuleType, folders: Sequence[str]) -> bool:
    """Return True if an import by name finds this module rather than a different one."""
    from importlib.machinery import PathFinder

    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return True
    parent = module.__name__.rpartition(".")[0]
    paths = getattr(sys.modules.get(parent), "__path__", None) if parent else None
    if parent and paths is None:
        return False
    spec = PathFinder.find_spec(module.__name__, paths)
    if spec is None:  # there are other finders for editable installs and zip files
        is_elsewhere = is_installed(file) or _is_ours(module) or "site-packages" in file
        is_outside = any(_is_below(file, folder) for folder in folders[1:])
        return is_elsewhere or (is_outside and _is_found_by_hook(module.__name__, paths, file))
    return spec.origin is None or os.path.realpath(spec.origin) == os.path.realpath(file)


def _is_found_by_hook(name: str, paths: Any, file: str) -> bool:
    """Return True if an import hook, such as that of an editable install, finds a module's file."""
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, paths)
        except Exception:  # noqa: BLE001, S112 - the hook may be a user's
            continue
        if spec is not None and spec.origin:
            return os.path.realpath(spec.origin) == os.path.realpath(file)
    return False


def _is_namespace(module: ModuleType, folders: Sequence[str]) -> bool:
    paths = list(getattr(module, "__path__", ()))
    return bool(paths) and all(
        is_installed(path) or any(_is_below(path, folder) for folder in folders) for path in paths
    )


def _is_ours(module: ModuleType) -> bool:
    """Return True if the module is part of Windlass, which every replica has."""
    return module.__name__.partition(".")[0] == "windlass"


def _is_below(file: str, root: str) -> bool:
    base = os.path.realpath(root).rstrip("/") + "/"
    return os.path.realpath(file).startswith(base)


@contextmanager
def _modules_by_value(folders: Sequence[str]) -> Iterator[None]:
    """Let cloudpickle pickle modules by value if a replica cannot import them."""
    import cloudpickle

    with _registry:  # cloudpickle has one registry per process
        already = cloudpickle.list_registry_pickle_by_value()
        astray = [
            module
            for name, module in list(sys.modules.items())
            if _at_home.get(name) is not module
            and name not in already
            and _is_astray(name, module, tuple(folders))
        ]
        for module in astray:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in astray:
                cloudpickle.unregister_pickle_by_value(module)


def _is_astray(name: str, module: object, folders: tuple[str, ...]) -> bool:
    """Return True if a replica cannot import a module by name."""
    # Some values in sys.modules are not modules, and some raise errors when accessed.
    if type(module) is not ModuleType or name == "__main__" or module.__name__ != name:
        return False
    file = getattr(module, "__file__", None)
    is_source = isinstance(file, str) and file.endswith(".py")
    if not is_source or _is_ours(module) or is_installed(file):
        _at_home[name] = module
        return False
    return not _is_known_file(file, folders) or (
        _is_being_imported(module) or not _is_found_by_name(module, folders)
    )


@lru_cache(maxsize=16_384)
def _is_known_file(file: str, folders: tuple[str, ...]) -> bool:
    return is_installed(file) or any(_is_below(file, folder) for folder in folders)


def _explained(
    fn: Callable[..., Any],
    call: dict[str, Any],
    dumps: Callable[[Any], Any],
    error: BaseException,
) -> SerializationError:
    name = _name(fn)
    hint = (
        "Create it inside the function, or remove it from the arguments. Open files, "
        "locks, connections and threads cannot be sent."
    )
    for path, value in _named_parts(fn, call):
        if refusal(value, dumps) is not None:
            part = find_unpicklable(value, dumps, path)
            return SerializationError(f"The call of {name} cannot be sent: {part}.", hint=hint)
    reason = str(error).partition("\n")[0] or type(error).__name__
    return SerializationError(f"The call of {name} cannot be sent: {reason}.", hint=hint)


def _named_parts(fn: Callable[..., Any], call: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in _bound(fn, call["args"], call["kwargs"]).items():
        yield f"argument {key!r}", value
    if call["function"][0] == "value":
        if hasattr(fn, "__code__"):
            yield from function_parts(fn, f"function {fn.__name__!r}")
        yield f"function {_name(fn)}", fn


def _bound(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    import inspect

    try:
        return dict(inspect.signature(fn).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {str(index): value for index, value in enumerate(args)} | dict(kwargs)


def _name(fn: Callable[..., Any]) -> str:
    return repr(getattr(fn, "__qualname__", None) or type(fn).__qualname__)
