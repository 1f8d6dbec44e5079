"""Packaging executables: one snapshot a project, uploaded now, as far as the server lacks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.authoring.executables import Container, Executable, PythonFunction
from windlass.authoring.packaged import Packaged, server_of
from windlass.authoring.programs import (
    executable_flaw,
    executable_name,
    path_flaw,
    place_of,
    plain_function,
    words_of,
)
from windlass.authoring.sources import Source
from windlass.client.submission import upload
from windlass.model.errors import InvalidArgument, Unsupported, shown
from windlass.packaging.pickling import pack_call
from windlass.packaging.roots import Root

if TYPE_CHECKING:
    from windlass.client.session import Client


def package(client: Client, executables: Sequence[Executable | Packaged]) -> list[Packaged]:
    """The executables with their code as it is now, in their order.

    Those of one project share one snapshot. What is packaged for this server already is itself.
    """
    _check(executables)
    endpoint = client.transport.endpoint
    places = [None if isinstance(each, Packaged) else place_of([each]) for each in executables]
    for executable, place in zip(executables, places, strict=True):
        if isinstance(executable, PythonFunction) and place is not None:
            # What cannot travel is told now, not at the first job of it.
            pack_call(plain_function(executable.function), (), {}, place.root.path)
    sources: dict[Root, tuple[Source, str]] = {}
    found = []
    for executable, place in zip(executables, places, strict=True):
        if isinstance(executable, Packaged):
            executable.check_server(endpoint)
            found.append(executable)
            continue
        assert place is not None  # noqa: S101 -- only what is packaged has none
        tree = _tree_of(place.root)
        if tree not in sources:
            source = Source(client, place)
            sources[tree] = source, _send(client, source)
        source, listed = sources[tree]
        found.append(
            Packaged(
                executable=executable,
                tree=source.snapshot.tree,
                files=source.snapshot.files,
                size=source.snapshot.size,
                server=server_of(endpoint),
                name=executable_name(executable),
                argv=words_of(executable, place),
                place=place,
                provenance=msgspec.structs.replace(source.provenance, packages=listed),
                flaw=executable_flaw(executable),
            )
        )
    return found


def _tree_of(root: Root) -> Root:
    """What is snapshotted: but for a folder that is not taken whole, whatever is run of it."""
    return root if root.kind == "loaded" else msgspec.structs.replace(root, script=None)


def _send(client: Client, source: Source) -> str:
    """Have the server know all of a source; the digest of its list of packages."""
    import hashlib

    listed = hashlib.sha256(source.packages).hexdigest()
    upload(client.transport, source.snapshot, {listed: source.packages}, source.retake)
    return listed


def _check(executables: Any) -> None:
    if isinstance(executables, (str, bytes)) or not isinstance(executables, Sequence):
        raise InvalidArgument(
            f"wl.package takes a list of executables, not {shown(executables)}.",
            hint='Write: [train] = wl.package([wl.PythonScript("train.py")])',
        )
    flaws = [
        f"{number}: {flaw}" if len(executables) > 1 else flaw
        for number, each in enumerate(executables)
        if (
            # Where it is to run is said later; then it is looked at again.
            flaw := executable_flaw(each, has_packages=True, is_elsewhere=True) or _place_flaw(each)
        )
    ]
    if flaws:
        raise InvalidArgument.of(flaws, where="wl.package")
    if any(isinstance(each, Container) for each in executables):
        raise Unsupported(
            "wl.package: no server runs an image as it is.",
            hint="Package the program itself: wl.PythonScript, wl.PythonModule or wl.Command. "
            "In an image it runs by executor=wl.Kubernetes(container_image=...).",
        )


def _place_flaw(executable: Executable | Packaged) -> str:
    if isinstance(executable, Packaged):
        return ""
    return path_flaw(executable, place_of([executable]))
