"""What `windlass kubernetes check` and `windlass doctor` tell of the cluster that jobs run on."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.cli.meant_cluster import checked, told_apart
from windlass.home import Home
from windlass.model.errors import WindlassError
from windlass.model.findings import ERROR, OK, WARNING, Finding

_AT_A_GLANCE = 2.0  # seconds that a cluster has to answer in


def look_at_cluster(home: Home, context: str | None, namespace: str | None) -> Iterator[Finding]:
    """Everything that must be right for jobs to run there; a context is one of this shell."""
    try:
        asked = checked(home, context, namespace)
    except WindlassError as error:
        yield Finding("asked", ERROR, f"the server: {error.message}", error.hint or "")
        return
    if asked.by is None:
        yield from asked.seen.findings
        return
    yield Finding("asked", OK, f"the server at {asked.by.url}, which runs the jobs")
    yield from asked.seen.findings
    yield from told_apart(home, namespace, asked)


def glance_at_cluster(home: Home) -> Iterator[Finding]:
    """In a line how it is; nothing where no cluster is known."""
    try:
        asked = checked(home, None, None, _AT_A_GLANCE)
    except WindlassError as error:
        yield Finding("kubernetes", WARNING, error.message, error.hint or "")
        return
    seen, wrong = asked.seen, asked.wrong
    if not seen.is_known:
        return
    if not seen.server:  # no client, or no file that can be used: of those who want a cluster
        assert wrong is not None  # noqa: S101 -- that is why there is none
        yield Finding("kubernetes", WARNING, wrong.text, wrong.mend)
        return
    where = f"{seen.server} ({seen.source}), namespace {seen.namespace}"
    if wrong is None:
        yield Finding("kubernetes", OK, f"{where}: it answers, and jobs may run there")
    else:
        yield Finding("kubernetes", WARNING, f"{where}: {wrong.text}", _MORE)


_MORE = "Only jobs on that cluster mind. More: windlass kubernetes check"
