"""Defines `Framework`, with its roles and the environment variables of its replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from windlass.frameworks.cluster import Cluster, Member
from windlass.model.job import EnvName, LongText, RestartScope, RoleName
from windlass.model.thread_safe_types import learned


class _Form(msgspec.Struct, frozen=True, kw_only=True):
    """The required types of a framework's fields."""

    name: str
    roles: tuple[RoleName, ...]
    alone: tuple[str, ...]
    rivals: tuple[tuple[str, ...], ...]
    services: tuple[str, ...]
    restart_scope: RestartScope
    default_role: RoleName


class Framework(msgspec.Struct, frozen=True, kw_only=True):
    """A framework for distributed training.

    Another package can add a framework with an entry point in the group `windlass.frameworks`.

    >>> def environment(cluster: Cluster, me: Member) -> dict[str, str]:
    ...     return {"MPI_RANK": str(cluster.rank(me))}
    >>> mpi = Framework(name="mpi", environment=environment, roles=("launcher", "worker"))
    >>> me = Member(role="worker", index=0)
    >>> mpi.environment(Cluster(members=(me,)), me)
    {'MPI_RANK': '0'}
    """

    name: str
    environment: Callable[[Cluster, Member], Mapping[str, str]]
    roles: tuple[str, ...] = ()  # the supported roles, or () to support all roles
    takes_services: bool = False  # True if a job may have additional service roles
    alone: tuple[str, ...] = ()  # roles that may have at most one replica
    rivals: tuple[tuple[str, ...], ...] = ()  # sets of mutually exclusive roles
    services: tuple[str, ...] = ()  # roles that are services by default
    restart_scope: RestartScope = RestartScope.REPLICA  # the default for jobs
    default_role: str = "worker"  # the role in a job without named roles

    @property
    def flaw(self) -> str:
        """Why a framework from another package is invalid, or "" if it is valid."""
        try:
            msgspec.convert(self, learned(_Form), from_attributes=True)
        except msgspec.ValidationError as error:
            return str(error)
        environment: object = self.environment
        return "" if callable(environment) else "its environment is not a function"

    def variables(self, cluster: Cluster, me: Member) -> dict[str, str]:
        """Return a replica's environment variables. Raise an error if they are invalid."""
        return msgspec.convert(self.environment(cluster, me), learned(dict[EnvName, LongText]))
