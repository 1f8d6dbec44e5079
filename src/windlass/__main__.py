"""`python -m windlass`: the command, where it is not on the PATH."""

from __future__ import annotations

from windlass.cli.main import main

if __name__ == "__main__":
    main()
