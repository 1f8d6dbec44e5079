"""Accounts of tests: service accounts with some permissions in one namespace, and their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubernetes import client

import windlass as wl
from harness import eventually
from on_kubernetes.cluster_access import Cluster
from windlass.kube.api.connection import Connection, connect, connect_with
from windlass.kube.api.stored_login import TokenLogin
from windlass.kube.permissions.check import missing_permissions
from windlass.kube.permissions.required import RUNNING, role_manifests, role_rules


def admin_connection(kubeconfig: Path, namespace: str) -> Connection:
    """A connection with all permissions."""
    return connect(config_file=str(kubeconfig), namespace=namespace)


class Accounts:
    """Creates accounts in a namespace."""

    def __init__(self, admin: Connection) -> None:
        self._admin = admin
        self.namespace = admin.namespace

    def make(self, name: str, rules: Sequence[dict[str, Any]]) -> str:
        """Create a service account with a role of these rules, and return its full name."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        self._admin.request("POST", path, {"metadata": {"name": name}})
        account = f"system:serviceaccount:{self.namespace}:{name}"
        role, binding = role_manifests(self.namespace, account, name=name)
        role["rules"] = list(rules)
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}"
        self._admin.request("POST", f"{rbac}/roles", role)
        self._admin.request("POST", f"{rbac}/rolebindings", binding)
        return account

    def change(self, name: str, rules: Sequence[dict[str, Any]]) -> None:
        """Replace the rules of the account."""
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}/roles/{name}"
        how = "application/merge-patch+json"
        self._admin.request("PATCH", path, {"rules": list(rules)}, content_type=how)

    def remove(self, name: str) -> None:
        """Delete the account, which invalidates its tokens."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{name}"
        self._admin.request("DELETE", path)

    def token(self, name: str) -> str:
        """A token of the account."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self._admin.request("POST", path, body)["status"]["token"])

    def authority(self) -> str:
        """The certificate of the cluster's authority."""
        path = self._admin.api.configuration.ssl_ca_cert
        return Path(path).read_text() if path else ""

    def connect(self, name: str) -> Connection:
        """A connection as that account."""
        login = TokenLogin(
            server=self._admin.server, token=self.token(name), ca_cert=self.authority()
        )
        return connect_with(login, self.namespace)


def core_of(connection: Connection) -> client.CoreV1Api:
    """The client's own methods, as the account of a connection."""
    return client.CoreV1Api(connection.api)


def log_in_with_few_rights(cluster: Cluster, namespace: str, folder: Path) -> None:
    """Log in as an account with the documented permissions: it may not list nodes or get queues."""
    admin = admin_connection(cluster.kubeconfig, namespace)
    accounts = Accounts(admin)
    accounts.make("trainer", role_rules(RUNNING))
    connection = accounts.connect("trainer")
    eventually(lambda: not missing_permissions(connection, namespace), "rights in force")
    authority = folder / "ca.crt"
    authority.write_text(accounts.authority())
    token = accounts.token("trainer")
    wl.TokenAuthentication(token, admin.server, ca_cert_path=authority).login()
    connection.close()
    admin.close()
