"""From what a user wrote to a draft that can be sent."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.authoring.options import SHORTEST_SECRET, Options, keep_secrets
from windlass.authoring.sources import Source, cache_of
from windlass.authoring.surroundings import (
    Surroundings,
    current_umask,
    is_within,
    open_file_limit,
    own_environment,
)
from windlass.client.submission import Draft
from windlass.model.job import (
    Code,
    Executable,
    FunctionCall,
    JobSpec,
    ProcessCall,
    Python,
    Role,
    ShellCall,
)
from windlass.model.records import Recipe, TrialKind
from windlass.model.wire import CreateTrial, Private
from windlass.packaging.params import describe_params
from windlass.packaging.pickling import pack_call

if TYPE_CHECKING:
    from windlass.authoring.packaged import Packaged
    from windlass.client.session import Client

# What the roles of an outline run, until a draft is made of it.
TO_COME = ProcessCall(argv=("",))


class Call(msgspec.Struct, frozen=True):
    """A function and its arguments, not pickled yet."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


Program = Call | ProcessCall | ShellCall


class Filing(msgspec.Struct, frozen=True, kw_only=True):
    """Where among the trials a new one belongs, and how it came to be asked for."""

    experiment: str
    experiment_id: int | None = None  # none: the newest experiment of that name
    key: str = ""  # the same again is the same trial; empty: a new one
    labels: tuple[str, ...] = ()
    auxiliary: bool = False
    parent_id: int | None = None
    recipe: Recipe = Recipe()
    kind: TrialKind = TrialKind.JOB


class Plan:
    """Everything about a job but what its roles run: made once, drafted from many times.

    The outline is the job without code, interpreter and executables. The code of the place is
    snapshotted when the plan is made; what is edited later is not in it. All roles share it but
    those that are packaged, by name. With all of them packaged there is no place.
    """

    def __init__(
        self,
        client: Client,
        outline: JobSpec,
        place: Surroundings | None,
        *,
        name: str,
        filing: Filing,
        secrets: Mapping[str, str],
        packages: Sequence[str] | str | None,
        packaged: Mapping[str, Packaged] = {},
    ) -> None:
        endpoint = client.transport.endpoint
        for each in packaged.values():
            each.check_server(endpoint)
        recorded = [value for role in outline.roles for value in role.env.values()]
        keep_secrets(secrets, recorded, "in env=, which is")
        keep_secrets(secrets, (name, filing.experiment), "in name= or experiment=, which are")
        told = (filing.recipe.identity, *filing.labels)
        keep_secrets(secrets, told, "in identity= or labels=, which are")
        self._outline = outline
        self._packaged = packaged
        self._name = name
        self._filing = filing
        self._secrets = dict(secrets)
        self._is_embedded = endpoint.is_embedded
        self._lock = _resolve(packages, client)
        self._source = None if place is None else Source(client, place)

    def draft(self, programs: Sequence[Program], params: Mapping[str, Any]) -> Draft:
        """A draft of the job, given what each of its roles runs, in their order."""
        source = self._source
        draft = Draft(self._request(params), programs=programs)
        if source is not None:
            draft.snapshot, draft.retake = source.snapshot, source.retake
        first = source or next(iter(self._packaged.values()))
        roles = tuple(
            self._role(draft, role, program, first.code)
            for role, program in zip(self._outline.roles, programs, strict=True)
        )
        spec = msgspec.structs.replace(
            self._outline, roles=roles, code=first.code, python=self._python(draft)
        )
        listed = draft.attach(source.packages) if source else first.provenance.packages
        argv = mask(first.provenance.argv, self._secrets.values())
        provenance = msgspec.structs.replace(first.provenance, packages=listed, argv=argv)
        draft.request = msgspec.structs.replace(draft.request, spec=spec, provenance=provenance)
        return draft

    def _role(self, draft: Draft, role: Role, program: Program, shared: Code) -> Role:
        packaged = self._packaged.get(role.name)
        code = packaged.code if packaged else shared
        return msgspec.structs.replace(
            role,
            executable=self._executable(draft, program, packaged),
            code=code if code != shared else None,
        )

    def _executable(self, draft: Draft, program: Program, packaged: Packaged | None) -> Executable:
        if not isinstance(program, Call):
            return program
        whose = packaged or self._source
        assert whose is not None  # noqa: S101 -- what is not packaged has a place
        function, root = program.function, whose.place.root.path
        payload = pack_call(function, tuple(program.args), dict(program.kwargs), root)
        qualname = getattr(function, "__qualname__", type(function).__qualname__)
        return FunctionCall(payload=draft.attach(payload), qualname=qualname)

    def _python(self, draft: Draft) -> Python:
        """The interpreter. What lies in the one tree is no import path beside the other."""
        packages, lock_text = self._lock
        lock = draft.attach(lock_text.encode()) if lock_text is not None else None
        places = [each.place for each in (self._source, *self._packaged.values()) if each]
        # In a pod neither this interpreter nor folders of this machine are to be found.
        is_here = self._is_embedded and self._outline.is_local
        python = places[0].python(packages, lock, embedded=is_here)
        if len(places) == 1 or not is_here:
            return python
        roots = [os.path.realpath(place.root.path) for place in places]
        outside = [
            path
            for place in places
            for path in place.extra_paths
            if not any(is_within(path, root) for root in roots)
        ]
        return msgspec.structs.replace(python, extra_paths=tuple(dict.fromkeys(outside)))

    def _request(self, params: Mapping[str, Any]) -> CreateTrial:
        filing = self._filing
        return CreateTrial(
            key=filing.key or uuid.uuid4().hex,
            experiment=filing.experiment,
            experiment_id=filing.experiment_id,
            labels=filing.labels,
            auxiliary=filing.auxiliary,
            parent_id=filing.parent_id,
            kind=filing.kind,
            recipe=mask_recipe(filing.recipe, self._secrets.values()),
            name=self._name,
            spec=self._outline,
            params=mask(describe_params(params), self._secrets.values()),
            private=private_of(
                self._secrets, embedded=self._is_embedded and self._outline.is_local
            ),
        )


def private_of(secrets: Mapping[str, str], *, embedded: bool) -> Private:
    """What a trial may know and no record may.

    This environment goes along only to a server on this machine, of this user.
    """
    if not embedded:
        return Private(secrets=dict(secrets))
    return Private(
        environ=dict(own_environment()),
        secrets=dict(secrets),
        umask=current_umask(),
        open_files=open_file_limit(),
    )


def plan_for(client: Client, options: Options, default_name: str, place: Surroundings) -> Plan:
    """The plan of what is run with options: a function, a script, a command."""
    if options.template is not None:
        from windlass.authoring.templates import plan_with_template

        return plan_with_template(client, options, default_name, place)
    return Plan(
        client,
        options.outline(),
        place,
        name=options.name or default_name,
        filing=Filing(experiment=options.experiment or default_name),
        secrets=options.secret_values(),
        packages=options.packages,
    )


def _resolve(
    packages: Sequence[str] | str | None, client: Client
) -> tuple[tuple[str, ...], str | None]:
    """What the packages that are asked for come to."""
    if not packages:
        return (), None
    import sys

    from windlass.packaging.environments import check_requirements, resolve_lock

    asked = check_requirements(packages)
    return asked, resolve_lock(asked, sys.executable, cache_of(client))


def mask(value: Any, secrets: Iterable[str]) -> Any:
    """A value as it may be recorded: the secrets in its texts replaced, the longest first."""
    hidden = sorted(
        (secret for secret in secrets if len(secret) >= SHORTEST_SECRET), key=len, reverse=True
    )

    def masked(value: Any) -> Any:
        if isinstance(value, str):
            for secret in hidden:
                value = value.replace(secret, "***")
            return value
        if isinstance(value, dict):
            return {masked(key): masked(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(masked(each) for each in value)
        return value

    return masked(value) if hidden else value


def mask_recipe(recipe: Recipe, secrets: Collection[str]) -> Recipe:
    """What can repeat a trial, unless a secret is in it: then the arguments are left out."""
    masked = mask(recipe.arguments, secrets)
    return recipe if masked == recipe.arguments else msgspec.structs.replace(recipe, arguments={})
