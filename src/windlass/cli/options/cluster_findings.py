"""Checks the cluster for `windlass kubernetes check` and `windlass doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.cli.options.which_cluster import check_cluster, find_cluster_mismatch
from windlass.home import Home
from windlass.model.check_results import ERROR, OK, WARNING, Finding
from windlass.model.errors import WindlassError

_AT_A_GLANCE = 2.0  # seconds to wait for a cluster's response


def check_cluster_findings(
    home: Home, context: str | None, namespace: str | None
) -> Iterator[Finding]:
    """Check everything that jobs need on the cluster and yield the findings.

    `context` is a context from this shell's KUBECONFIG.
    """
    try:
        check = check_cluster(home, context, namespace)
    except WindlassError as error:
        yield Finding("asked", ERROR, f"the server: {error.message}", error.hint or "")
        return
    if check.by is None:
        yield from check.seen.findings
        return
    yield Finding("asked", OK, f"the server at {check.by.url}, which runs the jobs")
    yield from check.seen.findings
    yield from find_cluster_mismatch(home, namespace, check)


def summarize_cluster(home: Home) -> Iterator[Finding]:
    """Summarize the cluster's state in one finding. Yield nothing if there is no cluster."""
    try:
        check = check_cluster(home, None, None, _AT_A_GLANCE)
    except WindlassError as error:
        yield Finding("kubernetes", WARNING, error.message, error.hint or "")
        return
    seen, wrong = check.seen, check.wrong
    if not seen.is_configured:
        return
    if not seen.server:  # no Kubernetes client, or no usable kubeconfig
        assert wrong is not None  # noqa: S101 -- an error is the reason
        yield Finding("kubernetes", WARNING, wrong.text, wrong.remedy)
        return
    where = f"{seen.server} ({seen.source}), namespace {seen.namespace}"
    if wrong is None:
        yield Finding("kubernetes", OK, f"{where}: it answers, and jobs can run there")
    else:
        yield Finding("kubernetes", WARNING, f"{where}: {wrong.text}", _MORE)


_MORE = "This affects only jobs on that cluster. Details: windlass kubernetes check"
