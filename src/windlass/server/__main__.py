"""`python -m windlass.server HOME READY_FD`: the embedded server, started by its first user."""

from __future__ import annotations

import sys

from windlass.server.lifecycle import serve_home

if __name__ == "__main__":
    sys.exit(serve_home(sys.argv[1], int(sys.argv[2])))
