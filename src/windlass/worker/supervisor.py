"""Starts a supervisor, as `python -I -S supervisor.py <attempt directory>`.

The supervisor itself is in the package `supervise`. Its loop and heartbeat are in `event_loop.py`.

Python compiles this file at every start. It therefore only locates the rest of the worker, whose
compiled files are cached.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Supervise the attempt whose directory is the first argument."""
    _make_room_importable()
    from windlass.worker.supervise.attempt import supervise

    supervise(sys.argv[1])


def _make_room_importable() -> None:
    """Create a stand-in for the package `windlass` that contains only `worker`.

    The interpreter option `-S` disables site-packages, so the real package cannot be imported.
    """
    folder = os.path.dirname(os.path.abspath(__file__))
    package = type(sys)("windlass")
    package.__path__ = [os.path.dirname(folder)]
    sys.modules["windlass"] = package


if __name__ == "__main__":
    main()
