"""A cluster: the replicas of one job as they see each other."""

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
        trainers = [each for each in self.members if not each.service]
        return tuple(sorted(trainers or self.members, key=lambda each: each.role not in LEADERS))

    @property
    def world_size(self) -> int:
        return len(self.peers)

    def rank(self, member: Member) -> int | None:
        """Which of the peers it is, from 0; none for a service."""
        return self.peers.index(member) if member in self.peers else None

    def member(self, role: str, index: int) -> Member:
        """The member of that role and index."""
        for each in self.members:
            if (each.role, each.index) == (role, index):
                return each
        raise KeyError(f"{role}-{index}")

    def by_role(self) -> dict[str, list[str]]:
        """The addresses of every role, in the order of the indices."""
        found: dict[str, list[str]] = {}
        for each in self.members:
            found.setdefault(each.role, []).append(each.address)
        return found


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
