"""Runs a launcher, a warm interpreter that forks, as `python launcher.py <descriptor> <bytecode>`.

Python compiles this file at every start. It therefore only locates the rest of the worker, whose
compiled files are cached.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext


def main() -> None:
    """Serve requests on the socket whose descriptor number is the first argument.

    The second argument is the folder of the cached bytecode, or "".
    """
    folder = os.path.dirname(os.path.abspath(__file__))
    # Python adds the script's folder to the path, but user code must not import modules from there
    # by accident.
    if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(folder):
        del sys.path[0]
    package = type(sys)("windlass")
    package.__path__ = [os.path.dirname(folder)]
    sys.modules["windlass"] = package
    from windlass.worker.common.bytecode_cache import imported_through

    root = os.path.dirname(os.path.dirname(folder))
    with imported_through(sys.argv[2], root) if sys.argv[2] else nullcontext():
        # The context ends before the first fork, so that user code is imported as usual.
        from windlass.worker.supervise.warm_fork import serve, warm_up

        warm_up()
    serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()
