"""The launcher as a program: `python launcher.py <descriptor>`, a warm interpreter that forks.

This file is compiled at every start, so it only locates the rest, which is cached.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Serve requests on the socket whose descriptor is the first argument."""
    folder = os.path.dirname(os.path.abspath(__file__))
    # Python adds the folder of the script to the path. Its module names must not affect user code.
    if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(folder):
        del sys.path[0]
    package = type(sys)("windlass")
    package.__path__ = [os.path.dirname(folder)]
    sys.modules["windlass"] = package
    from windlass.worker.supervise.warm_fork import serve

    serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()
