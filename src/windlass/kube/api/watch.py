"""Watches all objects of one kind and caches their current state.

The client's own `SharedInformer` is not used, for three reasons. It converts objects to models,
which is slow and drops unknown fields. It reconnects at once after each failed watch. It cannot
accept an object from a response before the watch itself reports the object.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from windlass.kube.api.connection import Connection
from windlass.kube.api.json import read
from windlass.kube.api.resource_kinds import Kind, Object, location_of, uid_of, version_of
from windlass.model.errors import KubernetesError, WindlassError

PAGE = 500
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
# The API server ends a watch after a random number of seconds in this range, so that not all
# watches end at the same time.
SHORTEST_WATCH, LONGEST_WATCH = 300, 600
# The API server sends a bookmark about once a minute. After a silence of more than this number of
# seconds, the connection counts as dead.
LONGEST_SILENCE = 150.0
_GONE = 410
_MOST_DELETED = 20_000
_UNPARSABLE = "NotUnderstood"

Change = Callable[[Object | None, Object | None], None]

_log = logging.getLogger(__name__)


class Watcher:
    """A cache of all objects of one kind, kept current by a watch. See `start` and `synced`.

    Calls `on_change(before, after)` for each created object (`before` is None), changed object, and
    deleted object (`after` is None), and `on_open()` after each reconnection. These callbacks never
    run at the same time. `selector` limits the objects by label, and `name` limits them by name.
    `keys` returns the index keys under which `matching` finds an object. All methods are
    thread-safe.
    """

    def __init__(
        self,
        connection: Connection,
        kind: Kind,
        *,
        namespace: str = "",
        selector: str = "",
        name: str = "",
        keys: Callable[[Object], Iterable[str]] = lambda _obj: (),
        on_change: Change = lambda _before, _after: None,
        on_trouble: Callable[[WindlassError | None], None] = lambda _error: None,
        on_open: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.synced = threading.Event()  # set once all existing objects are in the cache
        self.trouble: WindlassError | None = None  # the current error, or None if the watch works
        self._connection = connection
        self._selector = selector
        self._name = name
        self._keys = keys
        self._on_change = on_change
        self._on_trouble = on_trouble
        self._on_open = on_open
        self._clock = clock
        self._last_activity = clock()
        self._lock = threading.RLock()
        self._objects: dict[str, Object] = {}  # by uid
        self._locations: dict[tuple[str, str], str] = {}  # uids by namespace and name
        self._index: dict[str, set[str]] = {}
        # The uids and versions of removed objects. An object that lost its labels may come back
        # when it gets them again.
        self._deleted: OrderedDict[str, int] = OrderedDict()
        self._version = ""  # the last version that was read; "" means to list again
        self._is_stale = False  # whether a new list was requested
        self._stopping = threading.Event()
        self._response: Any = None
        self._was_cut = False  # whether we closed the current connection
        self._thread = threading.Thread(
            target=self._run, name=f"watch-{kind.plural}-{namespace or 'all'}", daemon=True
        )

    @property
    def has_died(self) -> bool:
        """Whether the thread of this watch ended although `stop` was not called."""
        is_over = self._thread.ident is not None and not self._thread.is_alive()
        return is_over and not self._stopping.is_set()

    @property
    def silence(self) -> float:
        """The seconds since the cluster last sent data or since a request last failed.

        If the value exceeds `LONGEST_SILENCE` plus a few pauses, the reading thread is stuck.
        """
        return 0.0 if self._thread.ident is None else self._clock() - self._last_activity

    def start(self) -> None:
        """Start the thread that watches.

        `synced` is set once all existing objects are in the cache.
        """
        self._note_activity()
        self._thread.start()

    def stop(self, timeout: float | None = 5.0) -> None:
        """Stop the watch at once, even while its thread waits for data."""
        self._stopping.set()
        self.cut()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def renew(self) -> None:
        """List all objects again. `synced` is cleared until the new list is complete."""
        with self._lock:
            self.synced.clear()
            self._is_stale = True
        self.cut()

    def cut(self) -> None:
        """Close the watch's connection.

        The watch reconnects and continues from its last version.
        """
        with self._lock:
            response = self._response
        if response is not None:
            self._was_cut = True
            try:
                response.shutdown()  # `close` alone would not wake the reading thread
            except (OSError, RuntimeError, ValueError):
                pass  # the reading thread is closing it or has already closed it

    def items(self) -> list[Object]:
        """Return all watched objects that are in the cache."""
        with self._lock:
            return list(self._objects.values())

    def get(self, uid: str) -> Object | None:
        """Return the object with this uid, or None if it is not in the cache."""
        with self._lock:
            return self._objects.get(uid)

    def at(self, namespace: str, name: str) -> Object | None:
        """Return the object with this namespace and name, or None if it is not in the cache."""
        with self._lock:
            return self._objects.get(self._locations.get((namespace, name), ""))

    def matching(self, key: str) -> list[Object]:
        """Return the objects that have this index key, sorted by name."""
        with self._lock:
            matching = [self._objects[uid] for uid in self._index.get(key, ())]
        return sorted(matching, key=location_of)

    def observe(self, obj: Object) -> None:
        """Add an object from an API response unless the cache has a newer version of it.

        Otherwise, the cache would lack the object until the watch itself reports it.
        """
        self._put(obj)

    def observe_deleted(self, obj: Object) -> None:
        """Remove an object from the cache, because an API response reported it as deleted."""
        self._remove(obj)

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                if not self._version or self._is_stale:
                    self._list()
                if self._watch():
                    failures = 0
                else:  # the API server may end every watch at once, so pause before the next one
                    raise WatchEnded("the watch received nothing")
            except Exception as error:  # noqa: BLE001  # the next try may succeed
                if self._stopping.is_set():
                    return
                self._failed(error)
                failures += 1
                pause = min(FIRST_PAUSE * 2.0 ** min(failures - 1, 16), LONGEST_PAUSE)
                self._stopping.wait(pause * random.uniform(0.75, 1.25))  # noqa: S311 -- no secret

    def _list(self) -> None:
        """Put all existing objects into the cache, and remove objects that no longer exist."""
        with self._lock:
            self._is_stale = False
        seen: set[str] = set()
        version, more = "", ""
        while True:
            query = {"limit": str(PAGE), **self._selection()}
            if more:
                query["continue"] = more
            page = self._connection.request("GET", self._path(), query=query)
            self._note_activity()
            for obj in page.get("items") or ():
                seen.add(uid_of(obj))
                self._put(self.kind.named(obj))
            version = page["metadata"]["resourceVersion"]
            more = page["metadata"].get("continue", "")
            if not more:
                break
        for obj in self.items():
            # Objects that arrived in the meantime are newer than the list.
            if uid_of(obj) not in seen and version_of(obj) <= int(version):
                self._remove(obj)
        self._version = version
        with self._lock:
            if not self._is_stale:  # no new list was requested in the meantime
                self.synced.set()

    def _watch(self) -> bool:
        """Apply changes to the cache until the API server ends the watch.

        Return True if any changes came.
        """
        seconds = random.randint(SHORTEST_WATCH, LONGEST_WATCH)  # noqa: S311 -- no secret
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
            **self._selection(),
        }
        opened = self._connection.open("GET", self._path(), query=query, timeout=LONGEST_SILENCE)
        self._note_activity()
        if not self._cannot_parse:
            # Clear the error here and not after listing, because a watch that continues from a
            # known version lists nothing.
            self._recovered()
        self._on_open()
        response = opened.response
        with self._lock:
            self._response, self._was_cut = response, False
        has_events = False
        try:
            # `stop` or `renew` was called before there was a connection to close
            if self._stopping.is_set() or self._is_stale:
                return True
            for event in _events(response):
                has_events = True
                self._note_activity()
                self._take(event)
                self._recovered()
        finally:
            with self._lock:
                self._response = None
            response.close()
        return has_events

    def _take(self, event: dict[str, Any]) -> None:
        what, obj = event["type"], event["object"]
        if what == "ERROR":
            if obj.get("code") == _GONE:
                self._version = ""
            raise WatchEnded(str(obj.get("message") or obj.get("reason") or "it failed"))
        if what == "DELETED":
            self._remove(obj)
        elif what != "BOOKMARK":
            self._put(obj)
        self._version = obj["metadata"]["resourceVersion"]

    def _put(self, obj: Object) -> None:
        uid, location = uid_of(obj), location_of(obj)
        with self._lock:
            if version_of(obj) <= self._deleted.get(uid, -1):
                return
            before = self._objects.get(uid)
            if before is not None and version_of(before) >= version_of(obj):
                return
            predecessor = self._objects.get(self._locations.get(location, ""))
            if predecessor is not None and uid_of(predecessor) != uid:
                if version_of(predecessor) > version_of(obj):
                    return  # an old event from an earlier watch
                self._remove(predecessor)
            if before is not None:
                self._unindex(before)
            self._objects[uid] = obj
            self._locations[location] = uid
            for key in self._keys(obj):
                self._index.setdefault(key, set()).add(uid)
            self._on_change(before, obj)

    def _remove(self, obj: Object) -> None:
        uid = uid_of(obj)
        with self._lock:
            self._deleted[uid] = max(version_of(obj), self._deleted.get(uid, -1))
            self._deleted.move_to_end(uid)
            while len(self._deleted) > _MOST_DELETED:
                self._deleted.popitem(last=False)
            before = self._objects.pop(uid, None)
            if before is None:
                return
            if self._locations.get(location_of(before)) == uid:
                del self._locations[location_of(before)]
            self._unindex(before)
            self._on_change(before, None)

    def _unindex(self, obj: Object) -> None:
        for key in self._keys(obj):
            uids = self._index.get(key, set())
            uids.discard(uid_of(obj))
            if not uids:
                self._index.pop(key, None)

    def _note_activity(self) -> None:
        self._last_activity = self._clock()

    def _failed(self, error: Exception) -> None:
        self._note_activity()
        if getattr(error, "status", None) == _GONE:
            self._version = ""
        failure = error if isinstance(error, WindlassError) else self._as_windlass_error(error)
        is_news = self.trouble is None or str(self.trouble) != str(failure)
        if isinstance(failure, WatchEnded):  # connections end regularly
            _log.debug("watch of %s: %s", self.kind.plural, failure)
            return
        self.trouble = failure
        if is_news:
            _log.warning("watching %s: %s", self.kind.plural, failure)
            self._on_trouble(failure)

    def _as_windlass_error(self, error: Exception) -> WindlassError:
        """Convert any error of a watch to a `WindlassError`."""
        # If another thread closes the connection, reading from it may raise any error.
        if self._was_cut or isinstance(error, OSError) or _is_transport_error(error):
            return WatchEnded(repr(error))
        if not self._cannot_parse:
            _log.error("watching %s", self.kind.plural, exc_info=error)
        return KubernetesError(
            f"The response of the cluster for {self.kind.plural} cannot be parsed: {error!r}.",
            hint="Changes of these objects are not noticed until then. The log has the details.",
            reason=_UNPARSABLE,
        )

    @property
    def _cannot_parse(self) -> bool:
        """Whether the API server's last response could not be parsed."""
        return getattr(self.trouble, "reason", "") == _UNPARSABLE

    def _recovered(self) -> None:
        if self.trouble is not None:
            self.trouble = None
            _log.info("watching %s again", self.kind.plural)
            self._on_trouble(None)

    def _path(self) -> str:
        return self.kind.path(self.namespace)

    def _selection(self) -> dict[str, str]:
        chosen = {"labelSelector": self._selector} if self._selector else {}
        return chosen | ({"fieldSelector": f"metadata.name={self._name}"} if self._name else {})


class WatchEnded(WindlassError):
    """Raised if a watch ends early. The next watch continues from the last version."""


def _is_transport_error(error: Exception) -> bool:
    """Return whether an error comes from HTTP, TLS or the network."""
    return type(error).__module__.partition(".")[0] in ("urllib3", "http", "ssl")


def _events(response: Any) -> Iterator[dict[str, Any]]:
    """Yield the events of a watch. Each line of the response is one event."""
    left = b""
    for chunk in response.stream(amt=None, decode_content=False):
        *lines, left = (left + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield read(line)
