"""Implements `wl.package`, which uploads executables' code in one snapshot per project."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from windlass.authoring.prepare.code_source import Source
from windlass.authoring.prepare.programs import (
    command_words,
    executable_flaw,
    executable_name,
    find_call_site,
    path_flaw,
    plain_function,
)
from windlass.authoring.public.executables import Container, Executable, PythonFunction
from windlass.authoring.public.packaged import Packaged, server_of
from windlass.client.connection.submit import upload
from windlass.model.errors import InvalidArgument, Unsupported, shown
from windlass.packaging.function_sources import find_sources
from windlass.packaging.pickling import pack_call
from windlass.packaging.project_files.project_root import Root

if TYPE_CHECKING:
    from windlass.client.client import Client
    from windlass.packaging.snapshot import Snapshot


def package(client: Client, executables: Sequence[Executable | Packaged]) -> list[Packaged]:
    """Upload the executables' current code, and return packaged executables in the same order.

    Executables in the same project share a snapshot. Already packaged executables are returned
    unchanged.
    """
    _check(executables)
    endpoint = client.transport.endpoint
    call_sites = [
        None if isinstance(item, Packaged) else find_call_site([item]) for item in executables
    ]
    by_value: dict[Root, list[Any]] = {}
    projects: dict[Root, Source] = {}
    for executable, call_site in zip(executables, call_sites, strict=True):
        if call_site is None:
            continue
        tree = _tree_of(call_site.root)
        if tree not in projects:
            projects[tree] = Source(client, call_site)
        if isinstance(executable, PythonFunction):
            # Raise pickling errors now rather than when the first job is submitted.
            values = by_value.setdefault(tree, [])
            function = plain_function(executable.function)
            pack_call(
                function, (), {}, call_site.root.path,
                describe=_collector(values), outside=projects[tree].outside_folders,
            )  # fmt: skip
    sources: dict[Root, _Sent] = {}
    packages = []
    for executable, call_site in zip(executables, call_sites, strict=True):
        if isinstance(executable, Packaged):
            executable.check_server(endpoint)
            packages.append(executable)
            continue
        assert call_site is not None  # noqa: S101 -- set unless packaged
        tree = _tree_of(call_site.root)
        if tree not in sources:
            sources[tree] = _send(client, projects[tree], by_value.get(tree, ()))
        sent = sources[tree]
        packages.append(
            Packaged(
                executable=executable,
                tree=sent.snapshot.tree,
                files=sent.snapshot.files,
                size=sent.snapshot.size,
                server=server_of(endpoint),
                name=executable_name(executable),
                argv=command_words(executable, call_site),
                call_site=call_site,
                source_code=sent.source.describe(call_site),
                provenance=msgspec.structs.replace(sent.source.provenance, packages=sent.listed),
                flaw=executable_flaw(executable),
                functions=sent.functions,
            )
        )
    return packages


def _tree_of(root: Root) -> Root:
    """Return a root that is equal for all scripts in a project, so that they share a snapshot.

    The root includes the script only if the snapshot depends on it.
    """
    return root if root.kind == "loaded" else msgspec.structs.replace(root, script=None)


def _collector(values: list[Any]) -> Callable[[Sequence[Any]], bytes]:
    def collect(by_value: Sequence[Any]) -> bytes:
        values.extend(by_value)
        return b""

    return collect


class _Sent(NamedTuple):
    """An uploaded snapshot, and the digest of the package list."""

    source: Source
    snapshot: Snapshot
    functions: tuple[str, ...]
    listed: str


def _send(client: Client, source: Source, by_value: Sequence[Any]) -> _Sent:
    """Upload a snapshot, together with the sources of functions that are not in any file."""
    import hashlib

    listed = hashlib.sha256(source.packages).hexdigest()
    sources = find_sources(by_value, source.has_file)

    def retake() -> Snapshot:
        source.retake()
        return source.snapshot_with(sources)

    snapshot = source.snapshot_with(sources)
    upload(client.transport, snapshot, {listed: source.packages}, retake)
    names = tuple(dict.fromkeys(item.name for item in sources))
    return _Sent(source, source.snapshot_with(sources), names, listed)


def _check(executables: Any) -> None:
    if isinstance(executables, (str, bytes)) or not isinstance(executables, Sequence):
        raise InvalidArgument(
            f"wl.package takes a list of executables, not {shown(executables)}.",
            hint='Write: [train] = wl.package([wl.PythonScript("train.py")])',
        )
    flaws = [
        f"{number}: {flaw}" if len(executables) > 1 else flaw
        for number, executable in enumerate(executables)
        if (
            # The backend is not known yet, so submission checks the executable again.
            flaw := executable_flaw(executable, has_packages=True, is_elsewhere=True)
            or _place_flaw(executable)
        )
    ]
    if flaws:
        raise InvalidArgument.of(flaws, where="wl.package")
    if any(isinstance(executable, Container) for executable in executables):
        raise Unsupported(
            "wl.package: a container image cannot be packaged.",
            hint="Package the program itself: wl.PythonScript, wl.PythonModule or wl.Command. "
            "To run it in an image, use executor=wl.Kubernetes(container_image=...).",
        )


def _place_flaw(executable: Executable | Packaged) -> str:
    if isinstance(executable, Packaged):
        return ""
    return path_flaw(executable, find_call_site([executable]))
