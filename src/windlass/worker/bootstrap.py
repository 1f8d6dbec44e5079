"""The process of a function: `python bootstrap.py <attempt directory>`.

This file is compiled at every start and is the user's `__main__`. It therefore only locates the
rest of the worker and leaves nothing behind: user code imports its own `windlass`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _load_room() -> Callable[[str], None]:
    folder = os.path.dirname(os.path.abspath(__file__))
    # Python adds the folder of the script to the path. Its module names must not affect user code.
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
