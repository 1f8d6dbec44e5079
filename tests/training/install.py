"""Install the frameworks of the extra `training` into this environment, one after the other.

What `make training` does. One that cannot be had does not keep the others away. It is pip that
installs them, not uv, so that builds which a machine keeps for pip are taken.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import requires

from packaging.requirements import Requirement

# Where PyTorch keeps its builds without CUDA: on the common index the one for Linux needs
# gigabytes of it.
TORCH_FOR_CPU = "https://download.pytorch.org/whl/cpu"


def main() -> int:
    missing = [each.name for each in wanted() if not install(each)]
    if missing:
        print(f"Could not be had: {', '.join(missing)}. Tests that need them are skipped.")
    return 1 if missing else 0


def wanted() -> Iterator[Requirement]:
    """What the extra asks for on this machine."""
    for line in requires("windlass") or ():
        each = Requirement(line)
        always = each.marker is None or each.marker.evaluate({"extra": ""})
        if not always and each.marker.evaluate({"extra": "training"}):
            yield each


def install(requirement: Requirement) -> bool:
    """Whether it is installed now; what pip said, if it is not."""
    began, said = time.monotonic(), ""
    for arguments in ways(requirement):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            print(f"{requirement.name} is installed ({time.monotonic() - began:.0f} s)", flush=True)
            return True
        said = "\n".join(line for line in done.stderr.splitlines() if "WARNING" not in line)
    print(f"{requirement.name} could not be installed:\n{said}", flush=True)
    return False


def ways(requirement: Requirement) -> list[list[str]]:
    """The arguments to try in turn."""
    plain = f"{requirement.name}{requirement.specifier}"
    if requirement.name != "torch" or sys.platform != "linux":
        return [[plain]]
    return [[f"{plain}+cpu"], [f"{plain}+cpu", "--extra-index-url", TORCH_FOR_CPU]]


if __name__ == "__main__":
    sys.exit(main())
