"""The definition of a framework: a name, its roles, and the environment of its replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from windlass.frameworks.cluster import Cluster, Member
from windlass.model.job import EnvName, LongText, RestartScope, RoleName
from windlass.model.thread_safe_types import learned


class _Form(msgspec.Struct, frozen=True, kw_only=True):
    """What the fields of a framework must be, as far as that can be said."""

    name: str
    roles: tuple[RoleName, ...]
    alone: tuple[str, ...]
    rivals: tuple[tuple[str, ...], ...]
    services: tuple[str, ...]
    restart_scope: RestartScope
    default_role: RoleName


class Framework(msgspec.Struct, frozen=True, kw_only=True):
    """A framework of distributed training.

    Your own is found by an entry point of the group `windlass.frameworks` that names such a value.

    >>> def environment(cluster: Cluster, me: Member) -> dict[str, str]:
    ...     return {"MPI_RANK": str(cluster.rank(me))}
    >>> mpi = Framework(name="mpi", environment=environment, roles=("launcher", "worker"))
    >>> me = Member(role="worker", index=0)
    >>> mpi.environment(Cluster(members=(me,)), me)
    {'MPI_RANK': '0'}
    """

    name: str
    environment: Callable[[Cluster, Member], Mapping[str, str]]
    roles: tuple[str, ...] = ()  # those it knows; none named: any
    takes_services: bool = False  # whether there may be others that only serve, without a rank
    alone: tuple[str, ...] = ()  # roles of which there is one replica at most
    rivals: tuple[tuple[str, ...], ...] = ()  # roles of which a job has one or the other
    services: tuple[str, ...] = ()  # roles that serve the others, unless a job says otherwise
    restart_scope: RestartScope = RestartScope.REPLICA  # unless a job says otherwise
    default_role: str = "worker"  # of a job that names none

    @property
    def flaw(self) -> str:
        """Why it is of no use, if it is of none: another package made it."""
        try:
            msgspec.convert(self, learned(_Form), from_attributes=True)
        except msgspec.ValidationError as error:
            return str(error)
        environment: object = self.environment
        return "" if callable(environment) else "its environment is no function"

    def variables(self, cluster: Cluster, me: Member) -> dict[str, str]:
        """What a replica finds in its environment; an error if that makes no sense."""
        return msgspec.convert(self.environment(cluster, me), learned(dict[EnvName, LongText]))
