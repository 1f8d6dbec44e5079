"""Builds zip files for machines on which Windlass is not installed.

One zip file contains the worker, and the other contains the package that user programs import.
"""

from __future__ import annotations

import functools
import io
import os
import zipfile
from collections.abc import Iterator

import windlass

_EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that equal files always give equal bytes

# The zip file unpacks itself, because the supervisor and the bootstrap are started by file name.
# This code is put after the source of `worker.agent.unpack_zip`.
_MAIN = """
import sys

code = os.path.join(os.environ.get("WINDLASS_AGENT_HOME", "/windlass-home"), "code")
with open(sys.argv[0], "rb") as program:
    unpack_zip(program.read(), code)
package = type(sys)("windlass")
package.__path__ = [os.path.join(code, "windlass")]
sys.modules["windlass"] = package
from windlass.worker.agent.agent import main

main()
"""


@functools.cache
def worker_zip() -> bytes:
    """Return the zip file that runs one attempt: `python worker.zip`.

    Environment variables select the attempt. The zip file contains the package `worker` and
    cloudpickle and needs nothing but Python.
    """
    import cloudpickle

    own = os.path.dirname(windlass.__file__)
    files = dict(_sources(os.path.join(own, "worker"), "windlass/worker"))
    files |= dict(_sources(os.path.dirname(cloudpickle.__file__), "cloudpickle"))
    unpack = files["windlass/worker/agent/unpack_zip.py"]
    return _packed({"__main__.py": unpack + _MAIN.encode(), **files})


@functools.cache
def package_zip() -> bytes:
    """Return the zip file of the package that user programs import as `windlass`.

    The version is read from the source files, which may be newer than this process.
    """
    import runpy

    own = os.path.dirname(windlass.__file__)
    version = runpy.run_path(os.path.join(own, "version.py"))["__version__"]
    stated = {"windlass/version.py": f'__version__ = "{version}"\n'.encode()}
    return _packed({**dict(_sources(own, "windlass")), **stated})


def _sources(folder: str, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _sources(entry.path, f"{name}/{entry.name}")
        elif entry.name.endswith((".py", ".sql", ".typed")):
            with open(entry.path, "rb") as file:
                yield f"{name}/{entry.name}", file.read()


def _packed(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
