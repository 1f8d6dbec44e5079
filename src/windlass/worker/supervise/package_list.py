"""Prints the packages of the interpreter that runs this file, as sorted `name==version` lines.

This file uses only the standard library and runs under every Python that a trial can use, because
other interpreters execute its source. Packages that were not installed from an index are marked,
because a package with the same name in the index would be different.
"""

from __future__ import annotations

from importlib import metadata

ELSEWHERE = "  # not from an index"


def list_packages() -> list[str]:
    """Return a line for each importable package."""
    lines: dict[str, str] = {}
    for distribution in metadata.distributions():
        try:
            name, version = distribution.metadata["Name"], distribution.version
            origin = distribution.read_text("direct_url.json")
        except Exception:  # noqa: BLE001, S112 - ignore a broken package
            continue
        if name and version:
            line = f"{name}=={version}" + (ELSEWHERE if origin else "")
            lines.setdefault(name.lower().replace("_", "-"), line)
    return [lines[name] for name in sorted(lines)]


if __name__ == "__main__":
    import json
    import sys

    sys.stdout.write(json.dumps([sys.version.split()[0], list_packages()]))
