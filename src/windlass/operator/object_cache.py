"""A cache of all objects of several kinds, in some or all namespaces."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import Kind, Object
from windlass.kube.api.watch import Change, Watcher
from windlass.model.errors import WindlassError


class ObjectCache:
    """A cache of Kubernetes objects that has one watcher per kind and namespace.

    `ObjectCache(connection, [PODS, SERVICES], ["lab"]).at(PODS, "lab", "train-worker-0")`
    """

    def __init__(
        self,
        connection: Connection,
        kinds: Sequence[Kind],
        namespaces: Sequence[str] = (),
        *,
        selector: str = "",
        keys: Callable[[Object], Iterable[str]] = lambda _obj: (),
        on_change: Change,
        on_trouble: Callable[[WindlassError | None], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.watchers = [
            Watcher(
                connection, kind, namespace=namespace, selector=selector, keys=keys,
                on_change=on_change, on_trouble=on_trouble, clock=clock,
            )
            for kind in kinds
            # Use a namespace only once if it is listed twice, or every object would come twice.
            for namespace in dict.fromkeys(namespaces or ("",))
        ]  # fmt: skip

    def start(self) -> None:
        """Start the watchers of all kinds and namespaces."""
        for watcher in self.watchers:
            watcher.start()

    def stop(self) -> None:
        """Stop the watchers of all kinds and namespaces."""
        for watcher in self.watchers:
            watcher.stop()

    def renew(self) -> None:
        """List all objects again. Call `wait_synced` to wait until the lists are complete."""
        for watcher in self.watchers:
            watcher.renew()

    def wait_synced(self, over: threading.Event) -> bool:
        """Wait until the lists of all watchers are complete.

        Return False if `over` is set first.
        """
        for watcher in self.watchers:
            while not watcher.synced.wait(0.1):
                if over.is_set():
                    return False
        return not over.is_set()

    def of(self, kind: Kind, namespace: str) -> Watcher:
        """Return the watcher for a kind in a namespace."""
        return next(
            watcher
            for watcher in self.watchers
            if watcher.kind == kind and watcher.namespace in ("", namespace)
        )

    def items(self) -> list[Object]:
        """Return all objects of all watched kinds that are in the cache."""
        return [obj for watcher in self.watchers for obj in watcher.items()]

    def get(self, uid: str) -> Object | None:
        """Return the object with this uid, or None if it is not in the cache."""
        for watcher in self.watchers:
            obj = watcher.get(uid)
            if obj is not None:
                return obj
        return None

    def at(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Return the object of this kind and name, or None if it is not in the cache."""
        return self.of(kind, namespace).at(namespace, name)

    def matching(self, kind: Kind, key: str) -> Iterator[Object]:
        """Yield the objects of a kind that have this index key, sorted by name."""
        for watcher in self.watchers:
            if watcher.kind == kind:
                yield from watcher.matching(key)
