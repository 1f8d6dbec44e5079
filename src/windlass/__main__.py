"""Runs the `windlass` command as `python -m windlass`, for when it is not on the PATH."""

from __future__ import annotations

from windlass.cli.main import main

if __name__ == "__main__":
    main()
