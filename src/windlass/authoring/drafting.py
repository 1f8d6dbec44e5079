"""From what a user wrote to a draft that can be sent."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from windlass.authoring.options import Options
from windlass.authoring.surroundings import (
    Surroundings,
    current_umask,
    look_around,
    open_file_limit,
)
from windlass.client.session import Client
from windlass.client.submission import Draft
from windlass.home import Home
from windlass.model.job import Executable, FunctionCall, JobSpec, ProcessCall, Role
from windlass.model.records import Provenance
from windlass.model.wire import CreateTrial, Private
from windlass.packaging.params import describe_params
from windlass.packaging.pickling import pack_call
from windlass.packaging.provenance import collect, installed_packages
from windlass.packaging.repository import GitStatus
from windlass.packaging.snapshot import Snapshot, take_snapshot

_OURS = ("WINDLASS_TRIAL", "WINDLASS_ROLE", "WINDLASS_INDEX", "WINDLASS_ATTEMPT")


class Plan:
    """Everything about a call but its arguments: made once, drafted from many times.

    The code is snapshotted when the plan is made; what is edited later is not in it.
    """

    def __init__(
        self,
        client: Client,
        options: Options,
        default_name: str,
        *,
        function: Callable[..., Any] | None = None,
        script: str | None = None,
    ) -> None:
        self._options = options
        self._name = default_name
        self._function = function
        self._secrets = options.secret_values()
        self._is_embedded = client.transport.endpoint.is_embedded
        self._cache = (client.transport.endpoint.home or Home.find()).cache
        self._place: Surroundings = look_around(function, script)
        self._lock = self._resolve(options.packages)
        status = GitStatus(str(self._place.root.path))  # git answers while the tree is read
        self._snapshot = take_snapshot(self._place.root, self._cache, status=status)
        self._packages = installed_packages(self._cache)
        self._provenance: Provenance = collect(
            status.state(), files=self._snapshot.files, size=self._snapshot.size
        )

    def draft_call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], bound: Mapping[str, Any]
    ) -> Draft:
        """A draft of one call of the function."""
        function = self._function
        assert function is not None  # noqa: S101 -- a plan for calls is made with one
        payload = pack_call(function, args, kwargs, self._place.root.path)
        draft = self._draft(describe_params(bound))
        digest = draft.attach(payload)
        qualname = getattr(function, "__qualname__", self._name)
        return self._complete(draft, FunctionCall(payload=digest, qualname=qualname))

    def draft_process(self, argv: Sequence[str], params: Mapping[str, Any]) -> Draft:
        """A draft of one run of a command line."""
        return self._complete(self._draft(dict(params)), ProcessCall(argv=tuple(argv)))

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

    def _draft(self, params: dict[str, Any]) -> Draft:
        masked = _mask(params, self._secrets.values())
        request = CreateTrial(
            key=uuid.uuid4().hex,
            experiment=self._options.experiment or self._name,
            name=self._options.name or self._name,
            spec=_PLACEHOLDER,
            params=masked,
            private=Private(
                environ=self._environ(),
                secrets=self._secrets,
                umask=current_umask() if self._is_embedded else None,
                open_files=open_file_limit() if self._is_embedded else None,
            ),
        )
        return Draft(request, self._snapshot, {}, self._retake)

    def _complete(self, draft: Draft, executable: Executable) -> Draft:
        import msgspec

        options = self._options
        packages, lock_text = self._lock
        lock = draft.attach(lock_text.encode()) if lock_text is not None else None
        role = Role(
            executable=executable,
            resources=options.resources(),
            env=dict(options.env or {}),
            restart_policy=options.restart_policy(),
        )
        spec = JobSpec(
            roles=(role,),
            code=self._place.code(self._snapshot.tree),
            python=self._place.python(packages, lock, embedded=self._is_embedded),
            backend=options.backend_name,
            volumes=options.mounted(),
            secret_names=tuple(self._secrets),
            backoff_limit=options.retries,
            active_deadline=options.deadline(),
        )
        listed = draft.attach(self._packages)
        argv = _mask(self._provenance.argv, self._secrets.values())
        provenance = msgspec.structs.replace(self._provenance, packages=listed, argv=argv)
        draft.request = msgspec.structs.replace(draft.request, spec=spec, provenance=provenance)
        return draft

    def _environ(self) -> dict[str, str]:
        """This environment goes along only to a server on this machine, of this user."""
        if not self._is_embedded:
            return {}
        return {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_OURS) and _is_text(name + value)
        }


_PLACEHOLDER = JobSpec(roles=(Role(executable=ProcessCall(argv=("",))),))


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mask(value: Any, secrets: Iterable[str]) -> Any:
    """A value as it may be recorded: the secrets in its texts replaced, the longest first."""
    hidden = sorted((secret for secret in secrets if len(secret) >= 4), key=len, reverse=True)

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
