"""A cluster: the replicas of one job, with their addresses and ranks."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.model.job import JobSpec

LEADERS = ("chief", "master")  # roles that come first, wherever they were declared


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of a job, and where the others reach it."""

    role: str
    index: int
    address: str = ""  # "host:port", or a host alone where nobody needs a port
    service: bool = False
    accelerators: int = 0

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0] or self.address

    @property
    def port(self) -> str:
        return self.address.rpartition(":")[2] if ":" in self.address else ""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """All replicas of a job: roles in their declared order, replicas by index.

    >>> workers = [Member(role="worker", index=index) for index in range(2)]
    >>> cluster = Cluster(members=(*workers, Member(role="chief", index=0)))
    >>> cluster.rank(workers[1]), cluster.world_size
    (2, 3)
    """

    members: tuple[Member, ...]

    @property
    def peers(self) -> tuple[Member, ...]:
        """Those who train, by rank: leaders first. Services only serve them."""
        trainers = [member for member in self.members if not member.service]
        return tuple(
            sorted(trainers or self.members, key=lambda member: member.role not in LEADERS)
        )

    @property
    def world_size(self) -> int:
        return len(self.peers)

    def rank(self, member: Member) -> int | None:
        """Which of the peers it is, from 0; none for a service."""
        return self.peers.index(member) if member in self.peers else None

    def member(self, role: str, index: int) -> Member:
        """The member of that role and index."""
        for member in self.members:
            if (member.role, member.index) == (role, index):
                return member
        raise KeyError(f"{role}-{index}")

    def by_role(self) -> dict[str, list[str]]:
        """The addresses of every role, in the order of the indices."""
        addresses: dict[str, list[str]] = {}
        for member in self.members:
            addresses.setdefault(member.role, []).append(member.address)
        return addresses


def cluster_of(spec: JobSpec, addresses: Mapping[str, str], default: str = "") -> Cluster:
    """The cluster of a job whose replicas are at these addresses, by "role-index"."""
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
