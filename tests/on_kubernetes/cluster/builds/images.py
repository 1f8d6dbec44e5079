"""Images, built without a container engine: archives that containerd imports."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from on_kubernetes.cluster.builds import debian
from on_kubernetes.cluster.builds.kubernetes import PAUSE
from on_kubernetes.cluster.commands import run
from on_kubernetes.cluster.locations import CACHE, PAUSE_IMAGE, WORKER_IMAGE

RECIPE = "1"
"""Change this with anything that changes the contents of an image."""

IMAGES = CACHE / f"images-{RECIPE}"
"""Complete if it exists."""

# The contents of `deploy/Dockerfile`: Python, uv and certificates. In addition, the system
# libraries that a mounted Python of this machine, PyTorch and TensorFlow need.
PACKAGES = (
    "base-files", "bash", "ca-certificates", "coreutils", "dash", "findutils", "grep", "libc-bin",
    "libgomp1", "libstdc++6", "procps", "python3", "python3-distutils", "python3-pip", "sed",
    "tar", "util-linux",
)  # fmt: skip

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def make_images() -> None:
    """Write the archives of all images to the cache."""
    if IMAGES.exists():
        return
    print("Making the images of pods ...", flush=True)
    work = CACHE / "making-images"
    shutil.rmtree(work, ignore_errors=True)
    made = work / "images"
    made.mkdir(parents=True)

    pause_root = work / "pause"
    pause_root.mkdir()
    shutil.copy2(PAUSE, pause_root / "pause")
    pause: dict[str, object] = {"Entrypoint": ["/pause"]}
    write_archive(made / "pause.tar", PAUSE_IMAGE, pause_root, pause)

    worker: dict[str, object] = {"Cmd": ["python3"], "Env": [f"PATH={PATH}", "LANG=C.UTF-8"]}
    root = _worker_root(work)
    write_archive(made / "worker.tar", WORKER_IMAGE, root, worker)

    os.sync()
    made.rename(IMAGES)
    shutil.rmtree(work)


def write_archive(archive: Path, name: str, root: Path, settings: dict[str, object]) -> None:
    """Write a folder as an image of one layer, in the format of `docker save`."""
    folder = archive.with_suffix(".parts")
    folder.mkdir()
    layer = folder / "layer.tar"
    run("tar", "--create", "--sort=name", "--numeric-owner", "--file", layer, "-C", root, ".")
    digest = run("sha256sum", layer).split()[0]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    (folder / "config.json").write_text(json.dumps(config))
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    run("tar", "--create", "--file", archive, "-C", folder, ".")
    shutil.rmtree(folder)


def _worker_root(work: Path) -> Path:
    """The file system of the worker's image: Debian's Python, and the uv of this environment."""
    import uv

    root = work / "worker"
    root.mkdir(mode=0o755)
    for name in ("bin", "lib", "lib32", "lib64", "libx32", "sbin"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    debian.Apt(work / "apt").unpack(PACKAGES, root)

    # The effects of the packages' own scripts.
    (root / "etc" / "passwd").write_text(
        "root:x:0:0:root:/root:/bin/bash\n"
        "worker:x:1000:1000::/home/worker:/bin/bash\n"
        "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
    )
    (root / "etc" / "group").write_text("root:x:0:\nworker:x:1000:\nnogroup:x:65534:\n")
    home = root / "home" / "worker"
    home.mkdir(parents=True, exist_ok=True)
    os.chown(home, 1000, 1000)
    (root / "root").chmod(0o755)  # mounts below it are for all users
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    authorities = sorted((root / "usr" / "share" / "ca-certificates").rglob("*.crt"))
    bundle = root / "etc" / "ssl" / "certs" / "ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(authority.read_text() for authority in authorities))
    for name, target in {"python": "python3", "sh": "dash"}.items():
        link = root / "usr" / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    for name in ("doc", "info", "locale", "man"):
        shutil.rmtree(root / "usr" / "share" / name, ignore_errors=True)
    (root / "usr" / "local" / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy2(uv.find_uv_bin(), root / "usr" / "local" / "bin" / "uv")
    return root
