"""Install the frameworks of the extra `training` into this environment, one after the other.

`make training` runs this. A framework that cannot be installed does not affect the others. The
script uses pip, not uv, so that local builds of the machine for pip are used.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import requires

from packaging.requirements import Requirement


def main() -> int:
    # PyTorch first: other packages that need it would install the build with CUDA.
    ordered = sorted(wanted(), key=lambda requirement: requirement.name != "torch")
    missing = [requirement.name for requirement in ordered if not install(requirement)]
    if missing:
        print(f"Could not be had: {', '.join(missing)}. Tests that need them are skipped.")
    return 1 if missing else 0


def wanted() -> Iterator[Requirement]:
    """The requirements of the extra on this machine."""
    for line in requires("windlass") or ():
        requirement = Requirement(line)
        always = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if not always and requirement.marker.evaluate({"extra": "training"}):
            yield requirement


def install(requirement: Requirement) -> bool:
    """Return whether the package is installed now. Print the output of pip if it is not."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, pinned(requirement)], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        print(f"{requirement.name} is installed ({time.monotonic() - began:.0f} s)", flush=True)
        return True
    print(f"{requirement.name} could not be installed:\n{done.stderr.strip()}", flush=True)
    if requirement.name == "torch":
        print(
            "pip must know where the builds without CUDA are; pytorch.org tells how. The one with "
            f"CUDA, of several gigabytes, will do as well: pip install {requirement.name}"
            f"{requirement.specifier}"
        )
    return False


def pinned(requirement: Requirement) -> str:
    """The requirement for pip: on Linux, the build of PyTorch without gigabytes of CUDA."""
    plain = f"{requirement.name}{requirement.specifier}"
    return f"{plain}+cpu" if requirement.name == "torch" and sys.platform == "linux" else plain


if __name__ == "__main__":
    sys.exit(main())
