"""Access to a cluster: that of `make kube`, or any that a kubeconfig names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kubernetes import client, config

from on_kubernetes.cluster import enclosure
from on_kubernetes.cluster.credentials import kubeconfig_of
from on_kubernetes.cluster.locations import KUBECONFIG, MACHINE_ADDRESS, WORKER_IMAGE

HOW_TO = (
    "no Kubernetes cluster is up: `make test-kube` starts one, "
    "WINDLASS_TEST_KUBECONFIG=path names another"
)


@dataclass(frozen=True)
class Cluster:
    """A Kubernetes that tests run on."""

    kubeconfig: Path
    is_ours: bool
    """Whether it is that of `make kube`: it runs on this machine, and tests may break it."""

    @property
    def image(self) -> str:
        """The worker's image: Python, uv and a shell."""
        return os.environ.get("WINDLASS_TEST_IMAGE", WORKER_IMAGE)

    @property
    def machine_address(self) -> str:
        """The address at which pods reach servers of tests on this machine."""
        assert self.is_ours, "pods of another cluster may not reach this machine"
        return MACHINE_ADDRESS

    def admin(self) -> client.ApiClient:
        """A client with all permissions."""
        return config.new_client_from_config(config_file=str(self.kubeconfig))

    def user(self, name: str) -> client.ApiClient:
        """A client of one of the users without permissions: `limited`, `alice`, `bob`."""
        return config.new_client_from_config(config_file=str(self.user_kubeconfig(name)))

    def user_kubeconfig(self, name: str) -> Path:
        """The kubeconfig of such a user."""
        assert self.is_ours, "another cluster has no users for tests: take a service account"
        return kubeconfig_of(name)


def find_cluster() -> Cluster | None:
    """The cluster for the tests, or None."""
    if kubeconfig := os.environ.get("WINDLASS_TEST_KUBECONFIG"):
        return Cluster(Path(kubeconfig).expanduser(), is_ours=_same(kubeconfig))
    if KUBECONFIG.exists() and enclosure.is_open():
        return Cluster(KUBECONFIG, is_ours=True)
    return None


def account_client(admin: client.ApiClient, namespace: str, account: str) -> client.ApiClient:
    """A client of a service account without permissions, which is created if it is missing."""
    core = client.CoreV1Api(admin)
    names = [item.metadata.name for item in core.list_namespaced_service_account(namespace).items]
    if account not in names:
        core.create_namespaced_service_account(namespace, {"metadata": {"name": account}})
    wanted = {"spec": {"expirationSeconds": 3600}}
    token = core.create_namespaced_service_account_token(account, namespace, wanted).status.token
    settings = client.Configuration()
    settings.host = admin.configuration.host
    settings.ssl_ca_cert = admin.configuration.ssl_ca_cert
    settings.verify_ssl = admin.configuration.verify_ssl
    settings.api_key = {"authorization": f"Bearer {token}"}
    return client.ApiClient(settings)


def _same(kubeconfig: str) -> bool:
    return KUBECONFIG.exists() and KUBECONFIG.samefile(Path(kubeconfig).expanduser())
