"""The process of a trial's function, started as `python bootstrap.py <attempt directory>`.

Python compiles this file at every start, and it becomes the user's `__main__`. It therefore only
locates the rest of the worker, and then removes its own names. User code imports a separate
`windlass`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _load_room() -> Callable[[str], None]:
    folder = os.path.dirname(os.path.abspath(__file__))
    # Python adds the script's folder to the path, but user code must not import modules from there
    # by accident.
    if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(folder):
        del sys.path[0]
    package = type(sys)("windlass")
    package.__path__ = [os.path.dirname(folder)]
    sys.modules["windlass"] = package
    from windlass.worker.program.call import run_call

    for name in list(sys.modules):
        if name.split(".")[0] == "windlass":
            del sys.modules[name]
    return run_call


if __name__ == "__main__":
    _load_room()(sys.argv[1])
