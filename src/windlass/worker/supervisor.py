"""The supervisor as a program: `python -I -S supervisor.py <attempt directory>`.

This file is compiled at every start, so it only locates the rest, which is cached.
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
    """Provide a stand-in package `windlass` with `worker` only, since site-packages is disabled."""
    folder = os.path.dirname(os.path.abspath(__file__))
    package = type(sys)("windlass")
    package.__path__ = [os.path.dirname(folder)]
    sys.modules["windlass"] = package


if __name__ == "__main__":
    main()
