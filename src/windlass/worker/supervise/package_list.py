"""List the packages of the interpreter that runs this file: `name==version` lines, sorted.

Standard library only, for every Python that a trial may have: another interpreter gets the text of
this file to run. The list marks packages that were not installed from an index, since a package of
the same name there would be a different one.
"""

from __future__ import annotations

from importlib import metadata

ELSEWHERE = "  # not from an index"


def list_packages() -> list[str]:
    """Return every importable package once."""
    lines: dict[str, str] = {}
    for distribution in metadata.distributions():
        try:
            name, version = distribution.metadata["Name"], distribution.version
            origin = distribution.read_text("direct_url.json")
        except Exception:  # noqa: BLE001, S112 - a broken package is not worth a failed trial
            continue
        if name and version:
            line = f"{name}=={version}" + (ELSEWHERE if origin else "")
            lines.setdefault(name.lower().replace("_", "-"), line)
    return [lines[name] for name in sorted(lines)]


if __name__ == "__main__":
    import json
    import sys

    sys.stdout.write(json.dumps([sys.version.split()[0], list_packages()]))
