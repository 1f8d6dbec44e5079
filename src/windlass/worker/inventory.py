"""The packages of whichever interpreter runs this file: `name==version`, one a line, sorted.

Only the standard library, of every Python a trial may have: another interpreter is given the text
of this file to run. What was not installed from an index says so: one of the same name there
would be somebody else's.
"""

from __future__ import annotations

from importlib import metadata

ELSEWHERE = "  # not from an index"


def list_packages() -> list[str]:
    """Every package that can be imported here, once."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        try:
            name, version = distribution.metadata["Name"], distribution.version
            origin = distribution.read_text("direct_url.json")
        except Exception:  # noqa: BLE001, S112 - a broken package is not worth a failed trial
            continue
        if name and version:
            line = f"{name}=={version}" + (ELSEWHERE if origin else "")
            found.setdefault(name.lower().replace("_", "-"), line)
    return [found[name] for name in sorted(found)]


if __name__ == "__main__":
    import json
    import sys

    sys.stdout.write(json.dumps([sys.version.split()[0], list_packages()]))
