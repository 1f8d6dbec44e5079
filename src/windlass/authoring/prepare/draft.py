"""Builds the request for a new trial from a checked job."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.authoring.prepare.call_site import (
    CallSite,
    current_umask,
    is_within,
    open_file_limit,
    own_environment,
)
from windlass.authoring.prepare.code_source import Source, cache_of
from windlass.authoring.prepare.large_call import LARGE_CALL, warn_of_large_call
from windlass.authoring.prepare.options import Options, refuse_recorded_secrets
from windlass.client.connection.script_loading import refuse_while_loading
from windlass.model.job import (
    Code,
    Executable,
    FunctionCall,
    JobSpec,
    ProcessCall,
    Python,
    Role,
)
from windlass.model.records import Recipe, TrialKind
from windlass.model.requests import CreateTrial, Private
from windlass.model.text.names import DEFAULT
from windlass.packaging.draft import Call, Draft, Program, mask, mask_sources
from windlass.packaging.function_sources import FunctionSource, dump_lines, find_sources
from windlass.packaging.large_values import LargeValues
from windlass.packaging.main_script import MainScript, find_main_script
from windlass.packaging.params import describe_params
from windlass.packaging.pickling import pack_call
from windlass.packaging.project_files.project_root import project_name

if TYPE_CHECKING:
    from windlass.authoring.public.packaged import Packaged
    from windlass.client.client import Client
    from windlass.packaging.snapshot import Snapshot

# Stands in for the executables of a job specification that are not known yet.
TO_COME = ProcessCall(argv=("",))
_MOST_NAMED = 100


class Filing(msgspec.Struct, frozen=True, kw_only=True):
    """The experiment, labels and other data that are recorded with a new trial."""

    experiment: str
    project: str = DEFAULT
    experiment_id: int | None = None  # None: the project's newest experiment with this name
    key: str = ""  # the idempotency key, or "" to always create a new trial
    labels: tuple[str, ...] = ()
    auxiliary: bool = False
    parent_id: int | None = None
    recipe: Recipe = Recipe()
    kind: TrialKind = TrialKind.JOB


class Plan:
    """A checked job without its programs, from which `Plan.draft` builds requests for trials.

    `outline` is the job's spec without code, interpreter and executables. The constructor takes one
    snapshot of the project. All roles share it, except roles whose code `wl.package` uploaded
    earlier. `call_site` is None if all roles were packaged.
    """

    def __init__(
        self,
        client: Client,
        outline: JobSpec,
        call_site: CallSite | None,
        *,
        name: str,
        filing: Filing,
        secrets: Mapping[str, str],
        packages: Sequence[str] | str | None,
        packaged: Mapping[str, Packaged] = {},
    ) -> None:
        refuse_while_loading(name)
        endpoint = client.transport.endpoint
        for package in packaged.values():
            package.check_server(endpoint)
        recorded = [value for role in outline.roles for value in role.env.values()]
        refuse_recorded_secrets(secrets, recorded, "in env=, which is")
        refuse_recorded_secrets(
            secrets, (name, filing.experiment), "in name= or experiment=, which are"
        )
        _check_filing(secrets, filing)
        self._outline = outline
        self._packaged = packaged
        self._name = name
        self._filing = filing
        self._secrets = dict(secrets)
        self._is_embedded = endpoint.is_embedded
        self._lock = _resolve(packages, client)
        self._large_values = LargeValues()
        self._source = None if call_site is None else Source(client, call_site)
        self._last_script: tuple[object, object, MainScript] | None = None
        # Holding the values keeps their ids from being reused.
        self._last_sources: (
            tuple[tuple[int, ...], Sequence[Any], tuple[FunctionSource, ...]] | None
        ) = None

    def draft(
        self, programs: Sequence[Program], params: Mapping[str, Any], filing: Filing | None = None
    ) -> Draft:
        """Build a draft of the job. `programs` has one program per role, in the order of the roles.

        `filing` overrides the plan's own filing.
        """
        source = self._source
        if filing is not None:
            _check_filing(self._secrets, filing)
        draft = Draft(self._request(params, filing or self._filing), programs=programs)
        first = source or next(iter(self._packaged.values()))
        code = first.code
        executables = [
            self._executable(draft, program, self._packaged.get(role.name))
            for role, program in zip(self._outline.roles, programs, strict=True)
        ]
        if source is not None:
            sources = tuple(dict.fromkeys(draft.sources))
            draft.snapshot = source.snapshot_with(sources)
            draft.retake = partial(_retake, source, sources)
            names = tuple(dict.fromkeys(item.name for item in sources))
            code = msgspec.structs.replace(
                code, tree=draft.snapshot.tree, functions=names[:_MOST_NAMED]
            )
        roles = tuple(
            self._role(role, executable, code)
            for role, executable in zip(self._outline.roles, executables, strict=True)
        )
        spec = msgspec.structs.replace(
            self._outline, roles=roles, code=code, python=self._python(draft)
        )
        listed = draft.attach(source.packages) if source else first.provenance.packages
        argv = mask(first.provenance.argv, self._secrets.values())
        provenance = msgspec.structs.replace(first.provenance, packages=listed, argv=argv)
        if draft.snapshot is not None:
            files, size = draft.snapshot.files, draft.snapshot.size
            provenance = msgspec.structs.replace(provenance, tree_files=files, tree_size=size)
        draft.request = msgspec.structs.replace(draft.request, spec=spec, provenance=provenance)
        return draft

    def _role(self, role: Role, executable: Executable, shared: Code) -> Role:
        packaged = self._packaged.get(role.name)
        code = packaged.code if packaged else shared
        return msgspec.structs.replace(
            role, executable=executable, code=code if code != shared else None
        )

    def _executable(self, draft: Draft, program: Program, packaged: Packaged | None) -> Executable:
        if not isinstance(program, Call):
            return program
        whose = packaged or self._source
        assert whose is not None  # noqa: S101 -- unpackaged roles have a source
        function, root = program.function, whose.call_site.root.path
        outside = whose.outside_folders

        def describe(by_value: Sequence[Any]) -> bytes:
            sources = self._sources_of(by_value, whose)
            if whose is self._source:
                draft.sources += sources
            return dump_lines(sources)

        script = self._script_of(function, whose)
        call = pack_call(
            function, program.args, program.kwargs, root, self._large_values, describe,
            outside, script,
        )  # fmt: skip
        if call.size > LARGE_CALL:
            warn_of_large_call(program, call.size, (str(root), *outside))
        qualname = getattr(function, "__qualname__", type(function).__qualname__)
        main = None
        if call.uses_main:
            main = script.module()
            argv = mask(main.argv, self._secrets.values())
            main = msgspec.structs.replace(main, argv=argv)
        return FunctionCall(payload=draft.attach_call(call), qualname=qualname, main=main)

    def _script_of(self, function: Callable[..., Any], whose: Source | Packaged) -> MainScript:
        """Return the script that this process runs.

        The result is cached, so that the calls of a `map` look for the script only once.
        """
        root = whose.call_site.root.path
        last = self._last_script
        if last is None or last[0] is not function or last[1] is not whose:
            script = find_main_script(function, root, whose.has_file)
            last = self._last_script = function, whose, script
        return last[2]

    def _sources_of(
        self, values: Sequence[Any], whose: Source | Packaged
    ) -> tuple[FunctionSource, ...]:
        """Return the sources of functions and classes that a call carries, with secrets removed.

        The result is cached, because all calls of a `map` carry the same functions.
        """
        key = tuple(map(id, values))
        if self._last_sources is None or self._last_sources[0] != key:
            sources = mask_sources(find_sources(values, whose.has_file), self._secrets.values())
            self._last_sources = key, values, sources
        return self._last_sources[2]

    def _python(self, draft: Draft) -> Python:
        """Return the `python` field of the job's specification.

        Import paths inside the snapshots are left out.
        """
        packages, lock_text = self._lock
        lock = draft.attach(lock_text.encode()) if lock_text is not None else None
        call_sites = [
            source.call_site for source in (self._source, *self._packaged.values()) if source
        ]
        # A pod has neither this interpreter nor the folders on this machine.
        is_here = self._is_embedded and self._outline.capabilities.runs_on_server
        python = call_sites[0].python(packages, lock, embedded=is_here)
        if len(call_sites) == 1 or not is_here:
            return python
        roots = [os.path.realpath(call_site.root.path) for call_site in call_sites]
        outside = [
            path
            for call_site in call_sites
            for path in call_site.extra_paths
            if not any(is_within(path, root) for root in roots)
        ]
        return msgspec.structs.replace(python, extra_paths=tuple(dict.fromkeys(outside)))

    def _request(self, params: Mapping[str, Any], filing: Filing) -> CreateTrial:
        return CreateTrial(
            key=filing.key or uuid.uuid4().hex,
            experiment=filing.experiment,
            project=filing.project,
            experiment_id=filing.experiment_id,
            labels=filing.labels,
            auxiliary=filing.auxiliary,
            parent_id=filing.parent_id,
            kind=filing.kind,
            recipe=mask_recipe(filing.recipe, self._secrets.values()),
            name=self._name,
            spec=self._outline,
            params=mask(describe_params(params), self._secrets.values()),
            private=build_private(
                self._secrets,
                embedded=self._is_embedded and self._outline.capabilities.runs_on_server,
            ),
        )


def _retake(source: Source, sources: Sequence[FunctionSource]) -> Snapshot:
    source.retake()
    return source.snapshot_with(sources)


def _check_filing(secrets: Mapping[str, str], filing: Filing) -> None:
    filed = (filing.recipe.identity, *filing.labels)
    refuse_recorded_secrets(secrets, filed, "in identity= or labels=, which are")


def build_private(secrets: Mapping[str, str], *, embedded: bool) -> Private:
    """Build a trial's private data, such as secrets, which is never recorded.

    If `embedded`, the server runs as this user on this machine, so it receives all environment
    variables.
    """
    if not embedded:
        return Private(secrets=dict(secrets))
    return Private(
        environ=dict(own_environment()),
        secrets=dict(secrets),
        umask=current_umask(),
        open_files=open_file_limit(),
    )


def default_filing(experiment: str | None, name: str, call_site: CallSite | None) -> Filing:
    """Return the experiment of a trial.

    Without an experiment from the user, this is an experiment with the program's or function's name
    in a project that is named after the project's folder.
    """
    if experiment is not None or call_site is None:
        return Filing(experiment=experiment or name)
    return Filing(experiment=name, project=project_name(call_site.root))


def build_plan(client: Client, options: Options, default_name: str, call_site: CallSite) -> Plan:
    """Build a plan from `@wl.run` options, for a function, a script or a command."""
    if options.template is not None:
        from windlass.authoring.public.templates import plan_with_template

        return plan_with_template(client, options, default_name, call_site)
    return Plan(
        client,
        options.outline(),
        call_site,
        name=options.name or default_name,
        filing=default_filing(options.experiment, default_name, call_site),
        secrets=options.secret_values(),
        packages=options.packages,
    )


def _resolve(
    packages: Sequence[str] | str | None, client: Client
) -> tuple[tuple[str, ...], str | None]:
    """Return the packages of the option `packages`, and a lock that pins all versions.

    The lock is the text of a requirements file. The lock is None if the option is not set.
    """
    if not packages:
        return (), None
    import sys

    from windlass.packaging.environments import check_requirements, resolve_lock

    requirements = check_requirements(packages)
    return requirements, resolve_lock(requirements, sys.executable, cache_of(client))


def mask_recipe(recipe: Recipe, secrets: Collection[str]) -> Recipe:
    """Remove the arguments from a submission's record if they contain a secret."""
    masked = mask(recipe.arguments, secrets)
    return recipe if masked == recipe.arguments else msgspec.structs.replace(recipe, arguments={})
