"""Starts a supervisor, as `python -I -S supervisor.py <attempt directory> [<bytecode>]`.

The supervisor itself is in the package `supervise`. Its loop and heartbeat are in `event_loop.py`.

Python compiles this file at every start. It therefore only locates the rest of the worker, whose
compiled files are cached.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Supervise the attempt whose directory is the first argument.

    The second argument, if any, is the folder of the cached bytecode.
    """
    root = _make_room_importable()
    if sys.argv[2:]:
        from windlass.worker.common.bytecode_cache import add_cache

        add_cache(sys.argv[2], root)
    from windlass.worker.supervise.attempt import supervise

    supervise(sys.argv[1])


def _make_room_importable() -> str:
    """Create a stand-in for the package `windlass` that contains only `worker`.

    Return the folder that contains the package.

    The interpreter option `-S` disables site-packages, so the real package cannot be imported.
    """
    folder = os.path.dirname(os.path.abspath(__file__))
    package = type(sys)("windlass")
    package.__path__ = [os.path.dirname(folder)]
    sys.modules["windlass"] = package
    return os.path.dirname(os.path.dirname(folder))


if __name__ == "__main__":
    main()
