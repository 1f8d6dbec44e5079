"""Chooses a rerun's interpreter, with the current or the recorded packages."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from windlass.authoring.checks.options import nearest
from windlass.authoring.prepare.code_source import cache_of
from windlass.model.errors import InvalidArgument, shown
from windlass.model.job import Python
from windlass.model.records import Provenance, TrialRecord
from windlass.packaging.provenance import collect
from windlass.packaging.recorded_environment import (
    Difference,
    Interpreter,
    Unusable,
    difference,
    look_at,
    rebuild,
)

if TYPE_CHECKING:
    from windlass.authoring.rerun.arguments import Blobs
    from windlass.client.client import Client

RECORDED = "recorded"


class Environment(NamedTuple):
    """A rerun's interpreter, its provenance, and notes to show to the user."""

    python: Python
    provenance: Provenance
    notes: tuple[str, ...]


def check_environment(environment: object) -> None:
    """Raise an error if `environment` is not a valid option value."""
    if environment is None or environment == RECORDED:
        return
    near = nearest(str(environment), [RECORDED])
    guess = f" Did you mean {near!r}?" if near else ""
    raise InvalidArgument(
        f"environment: {shown(environment)} is not an environment.{guess}",
        hint="Remove it to use the packages that are installed now, or write "
        f'environment="{RECORDED}".',
    )


def prepare_environment(
    client: Client, record: TrialRecord, environment: str | None, blobs: Blobs
) -> Environment:
    """Prepare the trial's interpreter, with the current or the recorded packages."""
    was, python_spec = record.provenance, record.spec.python
    listed = blobs.fetch(was.packages) if was.packages else b""
    lock = blobs.fetch(python_spec.lock) if python_spec.lock else b""
    if environment == RECORDED and not listed:
        raise InvalidArgument(
            f"{_label(record)} has no recorded list of packages.",
            hint="Remove environment=, or submit it again with packages= for its dependencies.",
        )
    base, notes = _interpreter(client, record, environment)
    differs = Difference("", ())
    if listed:
        differs = difference((was.python, listed), (base.version, base.packages), lock)
    python = replace(python_spec, executable=base.executable if python_spec.executable else "")
    packages = base.packages
    if environment == RECORDED and differs.packages:
        rebuilt = rebuild(listed, lock, base)
        python = replace(python, lock=blobs.attach(rebuilt.lock.encode()))
        packages = rebuilt.packages
        left = difference((was.python, listed), (base.version, packages), lock)
        if left:
            notes.append(f"The environment of trial {record.id} is rebuilt, except for: {left}")
    elif differs:
        how = "" if not differs.packages else f'. To restore it: environment="{RECORDED}"'
        notes.append(
            f"The environment differs from the environment of trial {record.id}: {differs}{how}"
        )
    provenance = replace(
        collect(was.git, files=was.tree_files, size=was.tree_size),
        python=base.version,
        executable=base.executable,
        packages=blobs.attach(packages),
    )
    return Environment(python, provenance, tuple(notes))


def _interpreter(
    client: Client, record: TrialRecord, environment: str | None
) -> tuple[Interpreter, list[str]]:
    """Return the interpreter for a rerun, and notes to show to the user.

    This is normally the original trial's interpreter. It is this process's interpreter if the
    server is remote, or if the original no longer works and the packages are rebuilt anyway.
    """
    cache, wanted = cache_of(client), record.spec.python
    if not wanted.executable or not client.transport.endpoint.is_embedded:
        return look_at(sys.executable, cache), []
    try:
        interpreter = look_at(wanted.executable, cache)
        if not wanted.version or interpreter.minor == wanted.version:
            return interpreter, []
        flaw = f"is now Python {interpreter.minor}, not {wanted.version}"
    except Unusable as error:
        flaw = str(error)
    what = f"{_label(record)} ran with {wanted.executable}, which {flaw}."
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if here != wanted.version:
        raise InvalidArgument(
            what,
            hint=f"Create it again: uv venv --python {wanted.version} ...\n"
            f'Or use Python {wanted.version}, with environment="{RECORDED}".',
        )
    if environment != RECORDED:
        raise InvalidArgument(
            what,
            hint=f'Rebuild its packages on this Python: environment="{RECORDED}"',
        )
    return look_at(sys.executable, cache), [f"{what} Windlass uses this one: {sys.executable}"]


def _label(record: TrialRecord) -> str:
    return f"Trial {record.id} ({record.name})"
