"""The embedded server as a program: `python __main__.py HOME READY_FD PATH...`.

Started by its first user with that user's import paths. They come last: a project's
`queue.py` is no business of the server.
"""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location


def main() -> int:
    """Serve a home until told to stop."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path and os.path.abspath(path) != here]
    sys.path += [path for path in sys.argv[3:] if path not in sys.path]
    _load_own_package(os.path.dirname(here))
    from windlass.runtimes.local.warm_launchers import Launchers

    # It gets ready while we do: most trials are of the interpreter that started us.
    launchers = Launchers()
    launchers.prepare(sys.executable, os.environ)
    from windlass.server.startup import serve_home

    return serve_home(sys.argv[1], int(sys.argv[2]), launchers)


def _load_own_package(folder: str) -> None:
    """Make `windlass` mean the one this file is of, whichever else can be imported here."""
    spec = spec_from_file_location(
        "windlass", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no package in {folder}")
    package = sys.modules["windlass"] = module_from_spec(spec)
    spec.loader.exec_module(package)


if __name__ == "__main__":
    sys.exit(main())
