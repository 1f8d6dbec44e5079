"""The addresses of names in the cluster, from services and their endpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from on_kubernetes.cluster.locations import DOMAIN

Objects = dict[tuple[str, str], dict[str, Any]]
"""Objects of one kind from the API, by namespace and name."""


def addresses_of(name: str, services: Objects, endpoints: Objects) -> list[str] | None:
    """Return the addresses of a name, or None for an unknown name.

    >>> services = {("ns", "mpi"): {"spec": {"clusterIP": "None"}}}
    >>> subset = {"addresses": [{"ip": "10.88.0.7", "hostname": "worker-0"}]}
    >>> endpoints = {("ns", "mpi"): {"subsets": [subset]}}
    >>> addresses_of("worker-0.mpi.ns.svc.cluster.local", services, endpoints)
    ['10.88.0.7']
    >>> addresses_of("mpi.ns.svc.cluster.local", services, endpoints)
    ['10.88.0.7']
    >>> addresses_of("worker-1.mpi.ns.svc.cluster.local", services, endpoints)
    """
    match name.lower().removesuffix(f".{DOMAIN}").split("."):
        case [service, namespace, "svc"]:
            key, hostname = (namespace, service), None
        case [hostname, service, namespace, "svc"]:
            key = (namespace, service)
        case [dashed, _, "pod"]:
            return [dashed.replace("-", ".")]
        case _:
            return None
    if key not in services:
        return None
    cluster_address = services[key]["spec"].get("clusterIP", "None")
    ready = list(_ready_addresses(endpoints.get(key)))
    if hostname is None:
        is_headless = cluster_address in ("", "None")
        return [address["ip"] for address in ready] if is_headless else [cluster_address]
    # A pod without a host name is named by its address.
    named = [address["ip"] for address in ready if _hostname(address) == hostname]
    return named or None


def is_in_cluster(name: str) -> bool:
    """Return whether a name belongs to the cluster.

    >>> is_in_cluster("kubernetes.default.svc.cluster.local"), is_in_cluster("python.org")
    (True, False)
    >>> is_in_cluster("1.0.88.10.in-addr.arpa")  # addresses of pods have no names
    True
    """
    lower = name.lower()
    return f".{lower}".endswith((f".{DOMAIN}", ".10.in-addr.arpa"))


def _ready_addresses(endpoints: dict[str, Any] | None) -> Iterable[dict[str, str]]:
    for subset in (endpoints or {}).get("subsets") or ():
        yield from subset.get("addresses") or ()


def _hostname(address: dict[str, str]) -> str:
    return address.get("hostname") or address["ip"].replace(".", "-")
