"""The image of `deploy/Dockerfile` with Windlass, built by its own steps without an engine.

It is based on the worker's image of this cluster, which replaces Docker's image of Python. All
later steps are those of the Dockerfile.
"""

from __future__ import annotations

import hashlib
import shlex
import shutil
import sys
import tarfile
from pathlib import Path

from on_kubernetes.cluster import enclosure
from on_kubernetes.cluster.builds.dockerfile import DOCKERFILE, PROJECT, Stage, stages
from on_kubernetes.cluster.builds.images import IMAGES, PATH, write_archive
from on_kubernetes.cluster.commands import run
from on_kubernetes.cluster.locations import CACHE, SOCKET, STATE
from on_kubernetes.cluster.lock import locked
from on_kubernetes.pod_mounts import Mounts, package_index
from windlass.version import __version__

WINDLASS_IMAGE = "windlass:test"
RECIPE = "2"
"""Change this with anything here that changes the image. Changes of project files are detected."""

# $1: the root, $2: the command; then the mounts from this machine.
_RUN = """
set -e
root=$1 command=$2
shift 2
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
for path in "$@"; do mount --bind "$path" "$root$path"; done
exec chroot "$root" sh -ec "$command"
"""


def have_windlass_image() -> str:
    """Build and import the image of the current project, and return its name."""
    # Not the lock of the clusters: a build takes minutes and must not block the start of a cluster.
    with locked(CACHE / "windlass-images.lock"):
        digest = _digest()
        archive = CACHE / "windlass-images" / f"{digest}.tar"
        if not archive.exists():
            _make(archive)
        imported = STATE / "windlass-image"
        if not imported.exists() or imported.read_text() != digest:
            command = ("ctr", f"--address={SOCKET}", "--namespace=k8s.io", "images", "import")
            enclosure.run_inside(*command, archive)
            imported.write_text(digest)
    return WINDLASS_IMAGE


def _digest() -> str:
    """A digest of everything that the image is built from."""
    digest = hashlib.sha256(f"{IMAGES.name} {RECIPE} {__version__}".encode())
    for path in (DOCKERFILE, PROJECT / "pyproject.toml"):
        digest.update(path.read_bytes())
    for path in sorted((PROJECT / "src").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(PROJECT)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _make(archive: Path) -> None:
    work = CACHE / "making-windlass"
    shutil.rmtree(work, ignore_errors=True)
    root = work / "root"
    root.mkdir(parents=True)
    with (
        tarfile.open(IMAGES / "worker.tar") as parts,
        tarfile.open(fileobj=parts.extractfile("./layer.tar")) as layer,
    ):
        layer.extractall(root, numeric_owner=True, filter="fully_trusted")
    context = work / "context"
    uv = Path(sys.executable).with_name("uv")
    run(uv, "build", "--wheel", "--out-dir", context / "dist", PROJECT)
    stage = stages(DOCKERFILE.read_text())["windlass"]
    for word, rest in stage.steps:
        if word == "COPY":
            _copy(rest, context, root)
        else:
            _run(rest, root, stage)
    shutil.rmtree(archive.parent, ignore_errors=True)  # those of older versions of the project
    archive.parent.mkdir()
    made = work / "windlass.tar"
    write_archive(made, WINDLASS_IMAGE, root, stage.settings(PATH))
    made.rename(archive)
    shutil.rmtree(work)


def _copy(rest: str, context: Path, root: Path) -> None:
    *sources, target = shlex.split(rest)
    there = root / target.lstrip("/")
    there.mkdir(parents=True, exist_ok=True)
    for source in sources:
        for path in context.glob(source):
            shutil.copy2(path, there)


def _run(command: str, root: Path, stage: Stage) -> None:
    """Run a command in the root as root, with the package index of this machine."""
    index = package_index() + Mounts((Path("/etc/resolv.conf"),))
    # Debian protects packages of apt from pip. Docker's Python has no packages of apt.
    env = {**stage.env, **index.env, "PIP_BREAK_SYSTEM_PACKAGES": "1", "PATH": PATH, "HOME": "/tmp"}
    made: list[Path] = []
    paths = dict.fromkeys([*index.paths, Path("/dev"), Path("/proc")])
    for path in paths:
        _make_place(path, root / str(path).lstrip("/"), root, made)
    seen = [str(path) for path in paths if path not in (Path("/dev"), Path("/proc"))]
    try:
        run(
            "unshare", "--mount", "--propagation", "private",
            "env", "-i", *(f"{name}={value}" for name, value in env.items()),
            "sh", "-c", _RUN, "sh", root, command, *seen,
        )  # fmt: skip
    finally:
        for place in reversed(made):
            place.rmdir() if place.is_dir() else place.unlink()


def _make_place(path: Path, place: Path, root: Path, made: list[Path]) -> None:
    """Create a mount point, and record the created paths."""
    missing = [path for path in (place, *place.parents) if path != root and not path.exists()]
    for mount_path in reversed([path for path in missing if root in path.parents]):
        if mount_path == place and not path.is_dir():
            mount_path.touch()
        else:
            mount_path.mkdir()
        made.append(mount_path)
