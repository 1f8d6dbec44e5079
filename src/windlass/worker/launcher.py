"""Runs a launcher, a warm interpreter that forks, as `python launcher.py <descriptor>`.

Python compiles this file at every start. It therefore only locates the rest of the worker, whose
compiled files are cached.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Serve requests on the socket whose descriptor number is the first argument."""
    folder = os.path.dirname(os.path.abspath(__file__))
    # Python adds the script's folder to the path, but user code must not import modules from there
    # by accident.
    if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(folder):
        del sys.path[0]
    package = type(sys)("windlass")
    package.__path__ = [os.path.dirname(folder)]
    sys.modules["windlass"] = package
    from windlass.worker.supervise.warm_fork import serve

    serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()
