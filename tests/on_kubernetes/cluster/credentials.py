"""The certificate authority of the cluster, the accounts of its parts, and those of tests."""

from __future__ import annotations

import csv
import json
import secrets
from pathlib import Path

from on_kubernetes.cluster.commands import run
from on_kubernetes.cluster.locations import (
    API_SERVER,
    API_SERVICE_ADDRESS,
    DOMAIN,
    KEYS,
    KUBECONFIG,
    NODE,
    NODE_ADDRESS,
    USERS,
)

AUTHORITY = KEYS / "ca.crt"
TOKENS = KEYS / "tokens.csv"

# Each account with its user and its groups.
_ACCOUNTS = {
    "admin": ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "dns": ("windlass:dns", "system:masters"),
    "kubelet": (f"system:node:{NODE}", "system:nodes"),
    "pod-removal": ("windlass:pod-removal", "system:masters"),
    "proxy": ("system:kube-proxy", ""),
    "scheduler": ("system:kube-scheduler", ""),
    **{name: (name, "") for name in USERS},
}


def make_credentials() -> None:
    """Write keys, tokens and kubeconfigs. The admin's is the last one and marks completion."""
    KEYS.mkdir(parents=True, mode=0o700)
    _make_authority()
    tokens = {account: secrets.token_hex(16) for account in _ACCOUNTS}
    with TOKENS.open("w", newline="") as file:
        for account, (user, groups) in _ACCOUNTS.items():
            csv.writer(file).writerow([tokens[account], user, account, groups])
    for account, token in tokens.items():
        kubeconfig_of(account).write_text(json.dumps(_kubeconfig(account, token), indent=1))
    kubeconfig_of("admin").rename(KUBECONFIG)


def kubeconfig_of(account: str) -> Path:
    """The kubeconfig of an account: of a part of the cluster, or of a user."""
    return KEYS / f"{account}.kubeconfig"


def token_of(account: str) -> str:
    """The bearer token of an account."""
    with TOKENS.open(newline="") as file:
        return {row[2]: row[0] for row in csv.reader(file)}[account]


def _make_authority() -> None:
    """Create a certificate authority, the API server's certificate, and the service account key."""
    authority_key, server_key = KEYS / "ca.key", KEYS / "server.key"
    run(
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650",
        "-subj", "/CN=windlass-kube", "-keyout", authority_key, "-out", AUTHORITY,
    )  # fmt: skip
    names = [f"kubernetes{suffix}" for suffix in ("", ".default", ".default.svc")]
    names += [f"kubernetes.default.svc.{DOMAIN}", "localhost"]
    addresses = [API_SERVICE_ADDRESS, NODE_ADDRESS, "127.0.0.1"]
    extensions = KEYS / "server.extensions"
    alternatives = [f"DNS:{name}" for name in names] + [f"IP:{address}" for address in addresses]
    extensions.write_text(f"subjectAltName={','.join(alternatives)}\n")
    request = run(
        "openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=kube-apiserver",
        "-keyout", server_key,
    )  # fmt: skip
    run(
        "openssl", "x509", "-req", "-days", "3650", "-CA", AUTHORITY, "-CAkey", authority_key,
        "-CAcreateserial", "-extfile", extensions, "-out", KEYS / "server.crt", stdin=request,
    )  # fmt: skip
    run("openssl", "genrsa", "-out", KEYS / "accounts.key", "2048")
    public = ("-pubout", "-out", KEYS / "accounts.pub")
    run("openssl", "rsa", "-in", KEYS / "accounts.key", *public)


def _kubeconfig(user: str, token: str) -> dict[str, object]:
    """A kubeconfig with one cluster and one user; JSON is YAML."""
    server = {"server": API_SERVER, "certificate-authority": str(AUTHORITY)}
    context = {"cluster": "windlass-kube", "user": user, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "windlass-kube", "cluster": server}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "windlass-kube", "context": context}],
        "current-context": "windlass-kube",
    }
