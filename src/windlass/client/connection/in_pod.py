"""Restrictions for trials in pods, which usually cannot reach the server."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from windlass.worker.common.process_tree import AWAY

# The functions that define search spaces. Modules may call them on import, even in a pod.
_SPACES = frozenset({"choice", "loguniform", "randint", "uniform"})


def check_asking() -> None:
    """Raise an error in a pod that cannot access a server.

    Without this check, the client would start an embedded server inside the pod.

    A pod can create trials if it has the variable `WINDLASS_SERVER` and the client's packages.
    """
    if AWAY not in os.environ:
        return
    import importlib.util

    if os.environ.get("WINDLASS_SERVER") and importlib.util.find_spec("msgspec") is not None:
        return
    _refuse("This trial runs in a pod, which has no access to the server.")


def stand_in(name: str) -> object | None:
    """Return a placeholder for a public name that this pod does not support.

    A pod without the client's packages only supports functions for trials, such as `wl.report`.

    Outside of pods, return None, because a missing name is an error there.
    """
    return _Absent(name) if AWAY in os.environ else None


class _Absent:
    """A placeholder for a public name that this pod does not support.

    A pod may import modules that mention the name, for example in an annotation or a search space.
    Any other use raises an error that explains why the name is unsupported.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *_args: object, **_kwargs: object) -> _Absent:
        if self._name not in _SPACES:
            self._refuse()
        return _Absent(f"{self._name}(...)")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # Python looks up such names itself
            raise AttributeError(name)
        self._refuse()

    def __getitem__(self, _key: Any) -> _Absent:
        return self

    def __or__(self, _other: Any) -> _Absent:
        return self

    __ror__ = __or__

    def __instancecheck__(self, _thing: object) -> bool:
        return False

    def __mro_entries__(self, _bases: object) -> NoReturn:
        self._refuse()

    def __repr__(self) -> str:
        return f"wl.{self._name}"

    def _refuse(self) -> NoReturn:
        _refuse(f"This trial runs in a pod, where wl.{self._name} cannot be used.")


def _refuse(message: str) -> NoReturn:
    from windlass.model.errors import Unsupported

    raise Unsupported(
        message,
        hint="Submit and query trials outside of the pod, for example in a generator. Or give the "
        "pod access to a server: container_image= with Windlass in it, "
        'env={"WINDLASS_SERVER": "http://..."}, secrets=["WINDLASS_TOKEN"].',
    )
