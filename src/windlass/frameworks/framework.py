"""The definition of a framework: a name, its roles, and the environment of its replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from windlass.frameworks.cluster import Cluster, Member
from windlass.model.job import EnvName, LongText, RestartScope, RoleName
from windlass.model.thread_safe_types import learned


class _Form(msgspec.Struct, frozen=True, kw_only=True):
    """The required types of the fields of a framework."""

    name: str
    roles: tuple[RoleName, ...]
    alone: tuple[str, ...]
    rivals: tuple[tuple[str, ...], ...]
    services: tuple[str, ...]
    restart_scope: RestartScope
    default_role: RoleName


class Framework(msgspec.Struct, frozen=True, kw_only=True):
    """A framework of distributed training.

    An entry point of the group `windlass.frameworks` adds a custom framework.

    >>> def environment(cluster: Cluster, me: Member) -> dict[str, str]:
    ...     return {"MPI_RANK": str(cluster.rank(me))}
    >>> mpi = Framework(name="mpi", environment=environment, roles=("launcher", "worker"))
    >>> me = Member(role="worker", index=0)
    >>> mpi.environment(Cluster(members=(me,)), me)
    {'MPI_RANK': '0'}
    """

    name: str
    environment: Callable[[Cluster, Member], Mapping[str, str]]
    roles: tuple[str, ...] = ()  # supported roles; empty: any
    takes_services: bool = False  # True if a job may add service roles, which have no rank
    alone: tuple[str, ...] = ()  # roles with at most one replica
    rivals: tuple[tuple[str, ...], ...] = ()  # roles that exclude each other
    services: tuple[str, ...] = ()  # roles that are services by default
    restart_scope: RestartScope = RestartScope.REPLICA  # the default of its jobs
    default_role: str = "worker"  # the role of a job without named roles

    @property
    def flaw(self) -> str:
        """Why the framework of another package is invalid; empty if it is valid."""
        try:
            msgspec.convert(self, learned(_Form), from_attributes=True)
        except msgspec.ValidationError as error:
            return str(error)
        environment: object = self.environment
        return "" if callable(environment) else "its environment is not a function"

    def variables(self, cluster: Cluster, me: Member) -> dict[str, str]:
        """Return the environment variables of a replica; raise an error if they are invalid."""
        return msgspec.convert(self.environment(cluster, me), learned(dict[EnvName, LongText]))
