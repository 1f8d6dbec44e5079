"""Records an event for each template field that is missing in the created pod.

The API drops unknown fields silently. A misspelled `comand`, for example, would start the image's
default program.
"""

from __future__ import annotations

import threading

from windlass.kube.api.resource_kinds import Object, uid_of
from windlass.kube.diagnosis.unknown_fields import dropped_fields, meant
from windlass.model.status import EventKind
from windlass.operator.events import EventRecorder

REASON = "FieldIgnored"


class DroppedFields:
    """Reports each dropped field of a job once. Thread-safe."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._lock = threading.Lock()
        self._reported: dict[str, frozenset[str]] = {}  # by the uid of a job

    def report(self, job: Object, sent: Object, created: Object) -> None:
        """Record an event for each field of `sent` that `created` lacks.

        Report each field only once.
        """
        dropped = frozenset(dropped_fields(sent["spec"], created.get("spec"), "spec"))
        with self._lock:
            reported = self._reported.get(uid_of(job), frozenset())
            if dropped:
                self._reported[uid_of(job)] = reported | dropped
        for path in sorted(dropped - reported):
            message = f"a pod has no field {path}. This part of the template is ignored."
            self._recorder.record(job, REASON, message + meant(path), kind=EventKind.WARNING)

    def forget(self, uid: str) -> None:
        """Discard the record of which dropped fields of a job were reported."""
        with self._lock:
            self._reported.pop(uid, None)
