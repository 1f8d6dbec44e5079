"""A job's cluster, which consists of its replicas with their addresses and ranks."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.model.job import JobSpec

LEADERS = ("chief", "master")  # these roles get the first ranks, wherever they are declared


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A job's replica, with the address under which other replicas reach it."""

    role: str
    index: int
    address: str = ""  # "host:port", or only a host if no port is needed
    service: bool = False
    accelerators: int = 0

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0] or self.address

    @property
    def port(self) -> str:
        return self.address.rpartition(":")[2] if ":" in self.address else ""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """All replicas of a job, with roles in declared order and replicas ordered by index.

    >>> workers = [Member(role="worker", index=index) for index in range(2)]
    >>> cluster = Cluster(members=(*workers, Member(role="chief", index=0)))
    >>> cluster.rank(workers[1]), cluster.world_size
    (2, 3)
    """

    members: tuple[Member, ...]

    @property
    def peers(self) -> tuple[Member, ...]:
        """The members that train, ordered by rank. Leaders come first. Services have no rank."""
        trainers = [member for member in self.members if not member.service]
        return tuple(
            sorted(trainers or self.members, key=lambda member: member.role not in LEADERS)
        )

    @property
    def world_size(self) -> int:
        return len(self.peers)

    def rank(self, member: Member) -> int | None:
        """Return a member's rank, counted from 0, or None for a service, which has no rank."""
        return self.peers.index(member) if member in self.peers else None

    def member(self, role: str, index: int) -> Member:
        """Return the member with this role and index."""
        for member in self.members:
            if (member.role, member.index) == (role, index):
                return member
        raise KeyError(f"{role}-{index}")

    def by_role(self) -> dict[str, list[str]]:
        """Return the addresses of each role's replicas, ordered by index."""
        addresses: dict[str, list[str]] = {}
        for member in self.members:
            addresses.setdefault(member.role, []).append(member.address)
        return addresses


def build_cluster(spec: JobSpec, addresses: Mapping[str, str], default: str = "") -> Cluster:
    """Build a job's cluster. The keys of `addresses` have the form "role-index"."""
    return Cluster(
        members=tuple(
            Member(
                role=role.name,
                index=index,
                address=addresses.get(f"{role.name}-{index}", default),
                service=role.service,
                accelerators=role.resources.accelerator.count if role.resources.accelerator else 0,
            )
            for role in spec.roles
            for index in range(role.replicas)
        )
    )
