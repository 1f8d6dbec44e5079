"""Views: all objects of some kinds, in some namespaces or in all, as they are now."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from windlass.kube.connecting import Connection
from windlass.kube.kinds import Kind, Object
from windlass.kube.watching import Change, Watcher
from windlass.model.errors import WindlassError


class View:
    """A watcher for each kind and namespace, taken as one; see `start`, `wait_seen` and `stop`.

    `View(connection, [PODS, SERVICES], ["lab"]).at(PODS, "lab", "train-worker-0")`
    """

    def __init__(
        self,
        connection: Connection,
        kinds: Sequence[Kind],
        namespaces: Sequence[str] = (),
        *,
        selector: str = "",
        keys: Callable[[Object], Iterable[str]] = lambda _thing: (),
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
            # One named twice would show everything twice.
            for namespace in dict.fromkeys(namespaces or ("",))
        ]  # fmt: skip

    def start(self) -> None:
        """Begin to see."""
        for watcher in self.watchers:
            watcher.start()

    def stop(self) -> None:
        """See no more."""
        for watcher in self.watchers:
            watcher.stop()

    def renew(self) -> None:
        """See all of it anew, as it is from now on; `wait_seen` waits for that."""
        for watcher in self.watchers:
            watcher.renew()

    def wait_seen(self, over: threading.Event) -> bool:
        """Wait until all was seen; whether it was, before the other was over."""
        for watcher in self.watchers:
            while not watcher.synced.wait(0.1):
                if over.is_set():
                    return False
        return not over.is_set()

    def of(self, kind: Kind, namespace: str) -> Watcher:
        """The watcher that sees a kind in a namespace."""
        return next(
            each
            for each in self.watchers
            if each.kind == kind and each.namespace in ("", namespace)
        )

    def items(self) -> list[Object]:
        """Everything that there is now."""
        return [thing for watcher in self.watchers for thing in watcher.items()]

    def get(self, uid: str) -> Object | None:
        """The object of that uid, if it is there."""
        for watcher in self.watchers:
            found = watcher.get(uid)
            if found is not None:
                return found
        return None

    def at(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """The object of that kind and name, if there is one."""
        return self.of(kind, namespace).at(namespace, name)

    def found(self, kind: Kind, key: str) -> Iterator[Object]:
        """The objects of a kind that have a key, by name."""
        for watcher in self.watchers:
            if watcher.kind == kind:
                yield from watcher.found(key)
