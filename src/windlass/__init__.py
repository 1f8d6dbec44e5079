"""Windlass: from a function on a laptop to a hundred-host training run."""

from windlass.version import __version__

__all__ = ["__version__"]
