"""The available frameworks, both built-in and from other packages."""

from __future__ import annotations

import difflib
import functools

from windlass.frameworks.framework import Framework
from windlass.frameworks.jax import JAX
from windlass.frameworks.tensorflow import TENSORFLOW
from windlass.frameworks.torch import TORCH
from windlass.model.errors import InvalidArgument, shown

ENTRY_POINTS = "windlass.frameworks"
PLAIN = Framework(name="", environment=lambda _cluster, _me: {}, default_role="main")
_OURS = {framework.name: framework for framework in (PLAIN, TENSORFLOW, TORCH, JAX)}


def find_framework(name: str) -> Framework:
    """Return the framework with this name. The name "" means no framework.

    >>> find_framework("torch").restart_scope.value
    'job'
    >>> find_framework("pytorch")
    Traceback (most recent call last):
    windlass.InvalidArgument: there is no framework 'pytorch'; did you mean 'torch'?
    """
    if name in _OURS:
        return _OURS[name]
    if name in _others():
        return _others()[name]
    near = difflib.get_close_matches(name, framework_names(), n=1, cutoff=0.5)
    guess = (
        f"did you mean {near[0]!r}?" if near else f"choose one of: {', '.join(framework_names())}"
    )
    raise InvalidArgument(f"there is no framework {shown(name)}; {guess}")


def framework_names() -> tuple[str, ...]:
    """Return the names of all frameworks. Built-in frameworks come first."""
    return tuple(name for name in (*_OURS, *_others()) if name)


@functools.cache
def _others() -> dict[str, Framework]:
    """Load frameworks from other packages, skipping those that cannot be loaded."""
    import logging
    from importlib.metadata import entry_points

    frameworks: dict[str, Framework] = {}
    for entry_point in entry_points(group=ENTRY_POINTS):
        try:
            loaded = entry_point.load()
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- code of another package
            logging.getLogger(__name__).warning("the framework %s: %s", entry_point.name, error)
            continue
        if not isinstance(loaded, Framework) or entry_point.name in _OURS:
            continue
        if loaded.flaw:
            logging.getLogger(__name__).warning(
                "the framework %s: %s", entry_point.name, loaded.flaw
            )
            continue
        frameworks.setdefault(entry_point.name, loaded)
    return frameworks
