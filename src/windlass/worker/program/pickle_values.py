"""Pickles user code's results and exceptions so that they can be restored unchanged."""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import sys
from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO


MAIN_NAMES = ("__main__", "__mp_main__")  # `multiprocessing` uses the second name in children


class SerializationFault(Exception):
    """Raised if a result cannot be pickled. The message names the offending part."""


class _Output:
    """A pickler's file that remembers its last error.

    This distinguishes an `OSError` of the file from an `OSError` of user code that the pickler
    calls.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise


def dump_value(value: object, file: BinaryIO) -> None:
    """Pickle a value into a file, importing cloudpickle only if plain pickle fails.

    Raise `OSError` only if the file cannot be written.
    """
    output = _Output(file)
    try:
        _PlainPickler(output, pickle.HIGHEST_PROTOCOL).dump(value)
        return
    except Exception as error:  # cloudpickle is tried next
        if error is output.error:
            raise
        file.seek(0)
        file.truncate()
    cloudpickle = load_cloudpickle()

    # cloudpickle is not typed.
    class ValuePickler(cloudpickle.Pickler):  # type: ignore[misc, name-defined]
        """Keeps the attributes of objects whose class has `__slots__` and is pickled by value."""

        def reducer_override(self, obj: object) -> object:
            if "__slots__" in type(obj).__dict__ and hasattr(obj, "__dict__"):
                reduced = obj.__reduce_ex__(4)
                if isinstance(reduced, tuple) and len(reduced) > 2:
                    return (*reduced[:2], _slotted(obj, reduced[2]), *reduced[3:])
            return super().reducer_override(obj)

    try:
        ValuePickler(output, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    except Exception as error:  # user code may raise any error
        if error is output.error:
            raise
        raise SerializationFault(_name_the_part(value, cloudpickle.dumps, error)) from error


class _PlainPickler(pickle.Pickler):
    """Refuses functions and classes of `__main__`, which is a different module in other processes.

    cloudpickle then pickles the function or class by value.
    """

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, (type, FunctionType)) and obj.__module__ in MAIN_NAMES:
            raise pickle.PicklingError(f"{obj} belongs to __main__")
        return NotImplemented


def _slotted(obj: object, state: object) -> object:
    """Convert an object's state so that a class with real slots can restore it.

    When a class is pickled by value, its copy only lists its slots, and instances store their
    values in `__dict__`.
    """
    if not isinstance(state, tuple) or len(state) != 2 or not isinstance(state[0], dict):
        return state
    slots = {
        name for kind in type(obj).__mro__ for name in _names(kind.__dict__.get("__slots__", ()))
    }
    if not set(state[0]) <= slots:
        return state
    return (None, {**state[0], **(state[1] or {})})


def _names(slots: object) -> list[str]:
    # Slots can only be one string or several strings.
    return [slots] if isinstance(slots, str) else list(slots)  # type: ignore[call-overload]


def _name_the_part(value: object, dumps: Callable[[object], bytes], error: Exception) -> str:
    try:
        from windlass.worker.program.unpicklable_part import find_unpicklable
    except ImportError:
        return f"The result cannot be sent back: {error}."
    return f"The result cannot be sent back: {find_unpicklable(value, dumps, 'result')}."


def dumps_exception(error: BaseException) -> bytes:
    """Pickle an exception and its causes. Raise an error if the exception cannot be pickled."""
    cloudpickle = load_cloudpickle()

    # cloudpickle is not typed.
    class ExceptionPickler(cloudpickle.Pickler):  # type: ignore[misc, name-defined]
        """Pickles `__cause__` too, which Python leaves out of pickled exceptions."""

        is_made_anew = True  # unpickling calls the class with `args`, as is usual for exceptions

        def reducer_override(self, obj: object) -> object:
            if isinstance(obj, BaseException) and type(obj).__setstate__ is _set_state:
                reduced = obj.__reduce_ex__(4)
                if isinstance(reduced, tuple):
                    # BaseException restores its state by setting attributes.
                    state = dict((reduced[2] if len(reduced) > 2 else None) or {})
                    if obj.__cause__ is not None:
                        state["__cause__"] = obj.__cause__
                    made = reduced[:2]
                    if not self.is_made_anew:
                        # Typeshed does not declare `__newobj__`.
                        made = (copyreg.__newobj__, (type(obj), *obj.args))  # type: ignore[attr-defined]
                    return (*made, state)
            return super().reducer_override(obj)

    class PatientPickler(ExceptionPickler):
        """Pickles exceptions whose `__init__` takes different arguments than `args`."""

        is_made_anew = False

    failure: Exception = pickle.PicklingError("unpickling returns another type")
    for pickler in (ExceptionPickler, PatientPickler, cloudpickle.Pickler):
        file = io.BytesIO()
        try:
            pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(error)
            again = pickle.loads(file.getvalue())  # noqa: S301  # pickled just above
        except Exception as fault:  # noqa: BLE001  # the next pickler may succeed
            failure = fault
            continue
        if type(again) is type(error) and _text_of(again) == _text_of(error):
            return file.getvalue()
    raise failure


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # a __str__ of user code may raise any error
        return ""


_set_state = BaseException.__setstate__


def load_cloudpickle() -> Any:
    """Import cloudpickle from the interpreter's packages, or else from the launcher's packages."""
    try:
        import cloudpickle
    except ModuleNotFoundError:
        folder = os.environ.get("WINDLASS_CLOUDPICKLE")
        if not folder:
            raise
        # Add the folder for this import only, because the job must not see its other packages.
        sys.path.append(folder)
        try:
            import cloudpickle
        finally:
            sys.path.remove(folder)
    return cloudpickle
