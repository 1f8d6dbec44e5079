"""Ignored: fields of a template that pods do not have, told on the object of the job, each once.

The API drops what it does not know without a word: a misspelt `comand` would start whatever the
image starts by itself.
"""

from __future__ import annotations

import threading

from windlass.kube.fields import dropped_fields, meant
from windlass.kube.kinds import Object, uid_of
from windlass.model.status import EventKind
from windlass.operator.events import Recorder

REASON = "FieldIgnored"


class Ignored:
    """What was told of each job. May be used from any thread."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lock = threading.Lock()
        self._told: dict[str, frozenset[str]] = {}  # by the uid of a job

    def look(self, job: Object, sent: Object, made: Object) -> None:
        """Tell what a pod was to have and has not, if that is news."""
        found = frozenset(dropped_fields(sent["spec"], made.get("spec"), "spec"))
        with self._lock:
            known = self._told.get(uid_of(job), frozenset())
            if found:
                self._told[uid_of(job)] = known | found
        for path in sorted(found - known):
            told = f"a pod has no field {path}: what the template says there is ignored."
            self._recorder.tell(job, REASON, told + meant(path), kind=EventKind.WARNING)

    def forget(self, uid: str) -> None:
        """A job is over, or gone."""
        with self._lock:
            self._told.pop(uid, None)
