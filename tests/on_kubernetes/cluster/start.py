"""Start the cluster, and prove it with a pod."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from on_kubernetes.cluster import enclosure, network
from on_kubernetes.cluster.builds import debian
from on_kubernetes.cluster.builds.images import IMAGES, make_images
from on_kubernetes.cluster.builds.kubernetes import build
from on_kubernetes.cluster.credentials import make_credentials
from on_kubernetes.cluster.locations import KUBECONFIG, SOCKET
from on_kubernetes.cluster.lock import locked
from on_kubernetes.cluster.parts import is_api_ready, part_named, parts
from on_kubernetes.cluster.settings import write_settings
from on_kubernetes.cluster.smoke_pod import prove
from on_kubernetes.cluster.stop import take_down


def up() -> None:
    """Start the cluster: build, start, and run a pod. Stopped parts are started again."""
    debian.check_machine()
    with locked():
        if is_up():
            print("The cluster is up already.")
        else:
            debian.install(debian.RUNTIME)
            build()
            make_images()
            began = time.monotonic()
            _start()
            print(f"The cluster is up, after {time.monotonic() - began:.0f} s.")
    print(f"\n  export KUBECONFIG={KUBECONFIG}\n")
    print("  make test-kube   runs the tests on it")
    print("  make kube-down   stops it and leaves nothing behind")


def is_up() -> bool:
    """Return whether all parts run."""
    return (
        KUBECONFIG.exists()
        and enclosure.is_open()
        and all(part.pid is not None for part in parts())
        and is_api_ready()
    )


def _start() -> None:
    if not (enclosure.is_open() and KUBECONFIG.exists()):
        take_down()  # the remains of a killed cluster
        holder = enclosure.make()
        network.connect(holder)
        write_settings()
        make_credentials()
    etcd, containerd, apiserver = map(part_named, ("etcd", "containerd", "apiserver"))
    containerd.start()
    etcd.start()
    containerd.wait()
    with ThreadPoolExecutor() as meanwhile:
        images = meanwhile.submit(_import_images)
        etcd.wait()
        apiserver.start()
        apiserver.wait()
        for part in parts():
            part.start()
        for part in parts():
            part.wait()
        images.result()
    prove()


def _import_images() -> None:
    """Import the images into containerd. Known images cost nothing."""
    for archive in sorted(IMAGES.glob("*.tar")):
        enclosure.run_inside(
            "ctr", f"--address={SOCKET}", "--namespace=k8s.io", "images", "import", archive
        )
