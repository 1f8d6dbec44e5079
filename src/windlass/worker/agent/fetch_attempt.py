"""Downloads an attempt's launch file, code and data from the server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

from windlass.worker.agent.unpack_zip import unpack_zip
from windlass.worker.agent.upload_checkpoints import note_shipped
from windlass.worker.blobs.digest import kind_of, path_in_store
from windlass.worker.blobs.manifest import blobs_of, decode
from windlass.worker.blobs.verified_reads import read_blob
from windlass.worker.common.atomic_files import make_folder, write_bytes, write_json
from windlass.worker.common.file_reads import exists, retried
from windlass.worker.common.process_tree import AWAY
from windlass.worker.program.call_file import large_values
from windlass.worker.supervise.package_environment import name_here
from windlass.worker.supervise.package_list import list_packages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from windlass.worker.agent.http_channel import Channel

_HEADER = 40  # bytes before each blob in a response: 32 for the digest, 8 for the length
_AT_ONCE = 2000  # blobs per request
_TOGETHER = 32 << 20  # bytes of blobs per request
_PIP = 300.0  # seconds that pip may take
_LARGE = 8 << 20  # bytes; a larger blob gets its own request
_LONGEST, _MOST_PACKAGES = 200, 5000  # characters and lines of the reported facts
_OWN = "WINDLASS_AGENT_"  # prefix of the agent's own variables, which are hidden from trials


class AttemptDownload:
    """Downloads one attempt's files to this machine."""

    def __init__(self, channel: Channel, base: str, home: str) -> None:
        self._channel = channel
        self._base = base
        self._home = home
        self._package = ""  # the package's folder, once downloaded

    def download(self) -> str:
        """Download everything and return the attempt's directory, which contains its launch file.

        After a temporary disk error, the download continues.
        """
        return retried(self._download)

    def _download(self) -> str:
        answer = self._channel.ask_json("POST", f"{self._base}/begin", _facts())
        launch: dict[str, Any] = answer["launch"]
        key = launch["key"]
        replica = os.path.dirname(launch["work"])
        attempt_dir = os.path.join(replica, str(key["attempt"]))
        for folder in (attempt_dir, launch["blobs"], os.path.dirname(launch["private"])):
            make_folder(folder, 0o700)
        private = answer.get("private") or {}
        self._write_private(launch, private)
        self._download_package(launch)
        self._adapt(launch, private, answer.get("python_version") or "")
        self._download_blobs(launch, answer.get("checkpoint"))
        write_json(os.path.join(attempt_dir, "launch.json"), launch)
        return attempt_dir

    def _write_private(self, launch: dict[str, Any], private: dict[str, Any]) -> None:
        """Write the attempt's private file, including this machine's environment variables.

        These variables come from the container image and the cluster.
        """
        own = {name: text for name, text in os.environ.items() if not name.startswith(_OWN)}
        content = json.dumps({**private, "environ": own}).encode()
        write_bytes(launch["private"], content)

    def _adapt(self, launch: dict[str, Any], private: dict[str, Any], wanted: str) -> None:
        """Replace paths and settings in the launch file that are different on this machine."""
        launch["python"] = sys.executable
        launch["env"][AWAY] = "1"
        launch["env"]["WINDLASS_CLOUDPICKLE"] = os.path.join(self._home, "code")
        here = "{}.{}".format(*sys.version_info[:2])
        if launch["executable"]["type"] == "function" and wanted and wanted != here:
            launch["flaw"] = (
                f"the image has Python {here}, but the function was pickled by Python "
                f"{wanted}; use a container_image= with Python {wanted}"
            )
        if launch.get("environment"):
            uv = self._find_uv({**launch["env"], **(private.get("secrets") or {})})
            if uv is None:
                launch["flaw"] = (
                    "the image has no uv, which installs packages=, and pip could not "
                    "install it; use a container_image= with uv or with the packages"
                )
            else:
                launch["environment"]["uv"] = uv
                cache = os.environ.get(_OWN + "CACHE")
                if cache:
                    name = name_here(os.path.basename(launch["environment"]["target"]))
                    launch["environment"]["target"] = os.path.join(cache, "envs", name)

    def _find_uv(self, variables: Mapping[str, str]) -> str | None:
        """Find uv next to the interpreter or on the PATH. If it is missing, install it with pip.

        pip uses the package index that the job's variables set for uv or pip.
        """
        beside = shutil.which("uv", path=os.path.dirname(sys.executable))
        uv = shutil.which("uv") or beside
        if uv is not None:
            return uv
        folder = os.path.join(self._home, "uv")
        argv = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "uv"]
        environ = {**os.environ, **variables}
        index = variables.get("UV_DEFAULT_INDEX") or variables.get("UV_INDEX_URL")
        if index:
            environ.setdefault("PIP_INDEX_URL", index)
        try:
            subprocess.run(argv, env=environ, check=True, timeout=_PIP)
        except (OSError, subprocess.SubprocessError):
            return None
        return shutil.which("uv", path=os.path.join(folder, "bin"))

    def _download_package(self, launch: dict[str, Any]) -> None:
        """Download the `windlass` package that the user's program imports."""
        if not self._package:
            folder = os.path.join(self._home, "package")
            unpack_zip(self._channel.ask("GET", f"{self._base}/package"), folder)
            self._package = folder
        launch["extra_paths"] = [self._package]

    def _download_blobs(self, launch: dict[str, Any], checkpoint: dict[str, Any] | None) -> None:
        executable = launch["executable"]
        paths = [launch.get("tree"), executable.get("payload"), executable.get("changes")]
        paths.append((launch.get("environment") or {}).get("lock"))
        first = [os.path.basename(path) for path in paths if path]
        manifests = [os.path.basename(launch["tree"])] if launch.get("tree") else []
        begin = checkpoint or launch.get("begin")  # until the attempt saves a checkpoint of its own
        if begin:
            first.append(begin["manifest"])
            manifests.append(begin["manifest"])
        blobs = launch["blobs"]
        self._fetch(blobs, dict.fromkeys(first, 0))
        listed: dict[str, int] = {}
        for manifest in manifests:
            listed |= blobs_of(decode(read_blob(blobs, manifest)))
        if executable.get("payload"):
            listed |= large_values(executable["payload"])
        self._fetch(blobs, listed)
        if checkpoint:
            folder, number = launch["checkpoints"], int(checkpoint.pop("number"))
            make_folder(folder, 0o700)
            write_json(os.path.join(folder, f"{number}.json"), checkpoint, durable=True)
            note_shipped(folder, number)

    def _fetch(self, blobs: str, sizes: Mapping[str, int]) -> None:
        """Download blobs. Many small blobs share a request, and each large blob gets its own."""
        wanted = {
            digest: size
            for digest, size in sizes.items()
            if size >= 0 and not exists(path_in_store(blobs, digest))
        }
        for digest in [digest for digest, size in wanted.items() if size > _LARGE]:
            self._fetch_large(blobs, digest)
        for batch in _batches({digest: size for digest, size in wanted.items() if size <= _LARGE}):
            names = {digest[-64:]: digest for digest in batch}
            body = json.dumps({"digests": batch}).encode()
            pack = self._channel.ask("POST", f"{self._base}/blobs", body)
            for digest, data in _unpack(pack, names):
                _check(digest, data)
                write_bytes(_created_path(blobs, digest), bytes(data))
        missing = [digest for digest in wanted if not exists(path_in_store(blobs, digest))]
        if missing:
            raise FileNotFoundError(f"{len(missing)} of its files are missing from the store")

    def _fetch_large(self, blobs: str, digest: str) -> None:
        target = _created_path(blobs, digest)
        temporary = f"{target}.download"
        self._channel.ask("GET", f"{self._base}/blobs/{digest}", into=temporary)
        os.replace(temporary, target)


def _facts() -> dict[str, Any]:
    """Return facts about this machine, which the server stores with the attempt."""
    system = os.uname()
    return {
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "platform": f"{system.sysname}-{system.release}-{system.machine}"[:_LONGEST],
        "packages": [line for line in list_packages() if len(line) <= _LONGEST][:_MOST_PACKAGES],
    }


def _batches(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Split digests of blobs into batches, so that each batch's content fits into memory.

    >>> list(_batches({"a": _TOGETHER, "b": 1, "c": 1}))
    [['a'], ['b', 'c']]
    """
    batch: list[str] = []
    held = 0
    for digest, size in sizes.items():
        if batch and (held + size > _TOGETHER or len(batch) >= _AT_ONCE):
            yield batch
            batch, held = [], 0
        batch.append(digest)
        held += size
    if batch:
        yield batch


def _unpack(pack: bytes, names: dict[str, str]) -> Iterator[tuple[str, memoryview]]:
    """Yield the blobs in a pack, each with the digest under which it was requested."""
    view, at = memoryview(pack), 0
    while at < len(view):
        name = bytes(view[at : at + 32]).hex()
        size = int.from_bytes(view[at + 32 : at + _HEADER], "big")
        at += _HEADER
        yield names[name], view[at : at + size]
        at += size


def _check(digest: str, data: memoryview) -> None:
    """Raise an error if downloaded data does not match its digest.

    Skip the check if this interpreter lacks the digest's hash algorithm.
    """
    try:
        is_right = kind_of(digest).digest_of(data) == digest
    except ImportError:
        return  # the server has verified the blob, and the connection has its own checksums
    if not is_right:
        raise ConnectionError("the received data differs from the sent data")


def _created_path(blobs: str, digest: str) -> str:
    target = path_in_store(blobs, digest)
    make_folder(os.path.dirname(target), 0o700)
    return target
