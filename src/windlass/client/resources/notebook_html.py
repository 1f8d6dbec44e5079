"""HTML of resources for notebooks, with the data that their records lack.

A display must neither wait nor fail. Additional data comes from a server that this process has
already contacted and that answers within a second. Without such a server, the HTML lacks the data.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from windlass.client.connection.transport import Transport, request_path
from windlass.client.resources.trial.curves import Curve, unpack
from windlass.display.html.curves import MOST_POINTS
from windlass.model.errors import WindlassError
from windlass.model.metrics import FetchMetrics
from windlass.model.records import ExperimentRecord, TrialRecord, own_metrics
from windlass.model.requests import TrialPage

if TYPE_CHECKING:
    from windlass.display.html.trial import CurvePoints

_PATIENCE = 1.0  # seconds for a request
_MOST_METRICS = 12
_MOST_TRIALS = 10


def trial_html(transport: Transport, record: TrialRecord) -> str | None:
    """Return a trial as HTML with the curves of its metrics, or None for a dry run."""
    from windlass.display.html.trial import trial_page

    if not record.id:
        return None
    return trial_page(record, _curves_of(transport, record), time.time())


def experiment_html(
    transport: Transport, record: ExperimentRecord, *, is_outdated: bool
) -> str | None:
    """Return an experiment as HTML with its newest trials, or None for a dry run."""
    from windlass.display.html.experiment import experiment_page

    if not record.id:
        return None
    trials: Sequence[TrialRecord] = ()
    with _quick(transport) as quick:
        if quick is not None and is_outdated:
            record = quick.ask("GET", request_path("experiments", record.id), ExperimentRecord)
        if quick is not None:
            query = {"experiment_id": record.id, "sort": "-id", "limit": _MOST_TRIALS}
            trials = quick.ask("GET", "/trials", TrialPage, query=query).items
    return experiment_page(record, trials, time.time())


def metrics_html(transport: Transport, request: FetchMetrics) -> str:
    """Return the curves of metrics as HTML."""
    from msgspec.structs import replace

    from windlass.display.html.curves import curves_page

    most = min(request.max_points or MOST_POINTS, MOST_POINTS)
    data = transport.fetch("POST", "/metrics", body=replace(request, max_points=most))
    return curves_page(unpack(data)[1])


def _curves_of(transport: Transport, record: TrialRecord) -> dict[str, CurvePoints]:
    """Return the curve of each metric from the first replica's newest attempt."""
    from windlass.display.html.trial import CurvePoints

    names = tuple(own_metrics(record.metrics))[:_MOST_METRICS]
    curves: list[Curve] = []
    with _quick(transport) as quick:
        if quick is not None and names:
            request = FetchMetrics(trials=(record.id,), names=names, max_points=MOST_POINTS)
            curves = unpack(quick.fetch("POST", "/metrics", body=request))[1]
    curves.sort(key=lambda curve: (-curve.head.index, curve.head.attempt))
    return {curve.head.name: CurvePoints(curve.steps, curve.values) for curve in curves}


@contextmanager
def _quick(transport: Transport) -> Iterator[Transport | None]:
    """Yield a transport that neither waits long nor starts a server, or None if there is none.

    If a request in the `with` block fails, the block ends without raising the error.
    """
    endpoint = transport.known_endpoint
    quick = None if endpoint is None else Transport(endpoint=endpoint, timeout=_PATIENCE)
    try:
        yield quick
    except WindlassError:
        pass
    finally:
        if quick is not None:
            quick.drop_idle()
