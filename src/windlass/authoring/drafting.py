"""From what a user wrote to a draft that can be sent."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.authoring.options import SHORTEST_SECRET, Options, keep_secrets
from windlass.authoring.surroundings import Surroundings, current_umask, open_file_limit
from windlass.client.submission import Draft
from windlass.home import Home
from windlass.model.job import Executable, FunctionCall, JobSpec, ProcessCall
from windlass.model.wire import CreateTrial, Private
from windlass.packaging.params import describe_params
from windlass.packaging.pickling import pack_call
from windlass.packaging.provenance import collect, installed_packages
from windlass.packaging.repository import GitStatus
from windlass.packaging.snapshot import Snapshot, take_snapshot

if TYPE_CHECKING:
    from windlass.client.session import Client

_OURS = ("WINDLASS_TRIAL", "WINDLASS_ROLE", "WINDLASS_INDEX", "WINDLASS_ATTEMPT")

# What the roles of an outline run, until a draft is made of it.
TO_COME = ProcessCall(argv=("",))


class Call(msgspec.Struct, frozen=True):
    """A function and its arguments, not pickled yet."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


class Plan:
    """Everything about a job but what its roles run: made once, drafted from many times.

    The outline is the job without code, interpreter and executables. The code is snapshotted
    when the plan is made; what is edited later is not in it. All roles share it.
    """

    def __init__(
        self,
        client: Client,
        outline: JobSpec,
        place: Surroundings,
        *,
        name: str,
        experiment: str,
        secrets: Mapping[str, str],
        packages: Sequence[str] | str | None,
    ) -> None:
        recorded = [value for role in outline.roles for value in role.env.values()]
        keep_secrets(secrets, recorded, "in env=, which is")
        keep_secrets(secrets, (name, experiment), "in name= or experiment=, which are")
        self._outline = outline
        self._place = place
        self._name = name
        self._experiment = experiment
        self._secrets = dict(secrets)
        self._is_embedded = client.transport.endpoint.is_embedded
        self._cache = (client.transport.endpoint.home or Home.find()).cache
        self._lock = self._resolve(packages)
        status = GitStatus(str(place.root.path))  # git answers while the tree is read
        self._snapshot = take_snapshot(place.root, self._cache, status=status)
        self._packages = installed_packages(self._cache)
        self._provenance = collect(
            status.state(), files=self._snapshot.files, size=self._snapshot.size
        )

    def draft(self, programs: Sequence[Call | ProcessCall], params: Mapping[str, Any]) -> Draft:
        """A draft of the job, given what each of its roles runs, in their order."""
        draft = Draft(self._request(params), self._snapshot, {}, self._retake, programs)
        roles = tuple(
            msgspec.structs.replace(role, executable=self._executable(draft, program))
            for role, program in zip(self._outline.roles, programs, strict=True)
        )
        packages, lock_text = self._lock
        lock = draft.attach(lock_text.encode()) if lock_text is not None else None
        spec = msgspec.structs.replace(
            self._outline,
            roles=roles,
            code=self._place.code(self._snapshot.tree),
            python=self._place.python(packages, lock, embedded=self._is_embedded),
        )
        listed = draft.attach(self._packages)
        argv = _mask(self._provenance.argv, self._secrets.values())
        provenance = msgspec.structs.replace(self._provenance, packages=listed, argv=argv)
        draft.request = msgspec.structs.replace(draft.request, spec=spec, provenance=provenance)
        return draft

    def _executable(self, draft: Draft, program: Call | ProcessCall) -> Executable:
        if isinstance(program, ProcessCall):
            return program
        function, root = program.function, self._place.root.path
        payload = pack_call(function, tuple(program.args), dict(program.kwargs), root)
        qualname = getattr(function, "__qualname__", type(function).__qualname__)
        return FunctionCall(payload=draft.attach(payload), qualname=qualname)

    def _retake(self) -> Snapshot:
        """The tree once more, its bytes held: for one that changes while it is sent."""
        self._snapshot = take_snapshot(self._place.root, self._cache, hold=True)
        return self._snapshot

    def _resolve(self, packages: Sequence[str] | str | None) -> tuple[tuple[str, ...], str | None]:
        if not packages:
            return (), None
        import sys

        from windlass.packaging.environments import check_requirements, resolve_lock

        asked = check_requirements(packages)
        return asked, resolve_lock(asked, sys.executable, self._cache)

    def _request(self, params: Mapping[str, Any]) -> CreateTrial:
        return CreateTrial(
            key=uuid.uuid4().hex,
            experiment=self._experiment,
            name=self._name,
            spec=self._outline,
            params=_mask(describe_params(params), self._secrets.values()),
            private=Private(
                environ=self._environ(),
                secrets=self._secrets,
                umask=current_umask() if self._is_embedded else None,
                open_files=open_file_limit() if self._is_embedded else None,
            ),
        )

    def _environ(self) -> dict[str, str]:
        """This environment goes along only to a server on this machine, of this user."""
        if not self._is_embedded:
            return {}
        return {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_OURS) and _is_text(name + value)
        }


def plan_for(client: Client, options: Options, default_name: str, place: Surroundings) -> Plan:
    """The plan of what is run with options: a function, a script, a command."""
    return Plan(
        client,
        options.outline(),
        place,
        name=options.name or default_name,
        experiment=options.experiment or default_name,
        secrets=options.secret_values(),
        packages=options.packages,
    )


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mask(value: Any, secrets: Iterable[str]) -> Any:
    """A value as it may be recorded: the secrets in its texts replaced, the longest first."""
    hidden = sorted(
        (secret for secret in secrets if len(secret) >= SHORTEST_SECRET), key=len, reverse=True
    )

    def mask(value: Any) -> Any:
        if isinstance(value, str):
            for secret in hidden:
                value = value.replace(secret, "***")
            return value
        if isinstance(value, dict):
            return {mask(key): mask(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(mask(each) for each in value)
        return value

    return mask(value) if hidden else value
