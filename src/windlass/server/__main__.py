"""The embedded server as a program: `python __main__.py HOME READY_FD PATH...`.

Started by its first user with that user's import paths. They come last: a project's
`queue.py` is no business of the server.
"""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Serve a home until told to stop."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path and os.path.abspath(path) != here]
    sys.path += [path for path in sys.argv[3:] if path not in sys.path]
    from windlass.server.lifecycle import serve_home

    return serve_home(sys.argv[1], int(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
