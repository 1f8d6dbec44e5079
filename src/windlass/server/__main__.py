"""The embedded server as a program: `python __main__.py HOME READY_FD PATH...`.

A client that finds no server starts this program with the client's own import paths. These paths
come last in `sys.path`, so that a `queue.py` in the user's project cannot shadow a module that the
server imports.
"""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location


def main() -> int:
    """Run the server for a home directory until a signal stops it."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path and os.path.abspath(path) != here]
    sys.path += [path for path in sys.argv[3:] if path not in sys.path]
    package = os.path.dirname(here)
    _load_own_package(package)
    os.umask(0o077)  # only the owner can read and write what this process creates
    from windlass.server.bytecode_folder import use_bytecode_folder

    # From here on, all modules of this installation are imported through the cache.
    bytecode = use_bytecode_folder(sys.argv[1], package)
    from windlass.runtimes.local.warm_launchers import Launchers

    # Start the process launcher early, because most trials use the same interpreter as this server.
    launchers = Launchers(bytecode)
    launchers.prepare(sys.executable, os.environ)
    from windlass.server.startup import serve_home

    return serve_home(sys.argv[1], int(sys.argv[2]), launchers)


def _load_own_package(folder: str) -> None:
    """Make `import windlass` load the package that contains this file, not some other copy."""
    spec = spec_from_file_location(
        "windlass", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no package in {folder}")
    package = sys.modules["windlass"] = module_from_spec(spec)
    spec.loader.exec_module(package)


if __name__ == "__main__":
    sys.exit(main())
