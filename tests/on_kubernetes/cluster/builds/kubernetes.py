"""The programs of Kubernetes, built once from Debian's source package and stored in the cache."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from on_kubernetes.cluster.builds import debian
from on_kubernetes.cluster.commands import ClusterError, run, run_logged
from on_kubernetes.cluster.locations import CACHE

VERSION = "1.20.2"
RECIPE = "1"
"""Change this with anything that changes the build."""

PROGRAMS = (
    "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy",
)  # fmt: skip

BINARIES = CACHE / f"kubernetes-{VERSION}-{RECIPE}"
"""Complete if it exists: it gets this name at the end of the build."""

PAUSE = BINARIES / "pause"
"""A program that waits and reaps orphans: the first process of pods, and of the namespaces."""

_REFLECT2 = Path("/usr/share/gocode/src/github.com/modern-go/reflect2")


def build() -> None:
    """Build the programs into the cache. The next build continues one that was killed."""
    if BINARIES.exists():
        return
    debian.install(debian.BUILDING)
    work = CACHE / "building"
    work.mkdir(parents=True, exist_ok=True)
    log = work / "build.log"
    print(f"Building Kubernetes {VERSION}: 15 minutes or more, this once.\n  {log}", flush=True)
    began = time.monotonic()
    tree = work / "source"
    if not tree.exists():
        _unpack_source(work).rename(tree)
    command = ("nice", "make", "all", f"WHAT={' '.join(f'cmd/{program}' for program in PROGRAMS)}")
    run_logged(command, log, cwd=tree, env=_build_environment())

    built = work / "binaries"
    shutil.rmtree(built, ignore_errors=True)
    built.mkdir()
    for name in PROGRAMS:
        shutil.copy2(tree / "_output" / "local" / "bin" / "linux" / "amd64" / name, built)
    pause_source = tree / "build" / "pause" / "linux" / "pause.c"
    run("gcc", "-Os", "-static", "-DVERSION=test", "-o", built / PAUSE.name, pause_source)
    os.sync()
    built.rename(BINARIES)
    shutil.rmtree(work)
    print(f"  built in {(time.monotonic() - began) / 60:.0f} minutes", flush=True)


def _unpack_source(work: Path) -> Path:
    """Download the source package and return the folder of its files."""
    downloads = work / "downloads"
    debian.Apt(work / "apt").source("kubernetes", downloads)
    archives = list(downloads.glob(f"kubernetes_*{VERSION}.orig.tar.gz"))
    if len(archives) != 1:
        raise ClusterError(f"Debian's source of Kubernetes is not of version {VERSION} here.")
    tree = work / "unpacking"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    run("tar", "--extract", "--strip-components=1", "--file", archives[0], cwd=tree)
    _replace_reflect2(tree)
    return tree


def _replace_reflect2(tree: Path) -> None:
    """Replace reflect2, whose included version crashes with Go 1.18 or newer."""
    old = tree / "vendor" / "github.com" / "modern-go" / "reflect2"
    for path in [*old.glob("*.go"), *old.glob("*.s")]:
        path.unlink()
    for path in [*_REFLECT2.glob("*.go"), *_REFLECT2.glob("*.s")]:
        if not path.name.endswith("_test.go"):
            shutil.copy(path, old)


def _build_environment() -> dict[str, str]:
    """Variables that the Makefile needs outside of a checkout."""
    major, minor, _ = VERSION.split(".")
    return {
        "KUBE_GIT_VERSION": f"v{VERSION}",
        "KUBE_GIT_COMMIT": "unknown",
        "KUBE_GIT_TREE_STATE": "clean",
        "KUBE_GIT_MAJOR": major,
        "KUBE_GIT_MINOR": minor,
        "KUBE_BUILD_PLATFORMS": "linux/amd64",
        "GOFLAGS": "",
        "GOLDFLAGS": "-s -w",
    }
