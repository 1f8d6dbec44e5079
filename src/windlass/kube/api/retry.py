"""The retry policy for requests. Import this module inside functions, because it needs urllib3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from urllib3 import Retry
from urllib3.exceptions import MaxRetryError

LONGEST_WAIT = 5.0  # seconds that a request may wait in total for a busy API server
_TOO_MANY = 429

_skips_busy_retries: ContextVar[bool] = ContextVar("_skips_busy_retries", default=False)


@contextmanager
def without_busy_retries() -> Iterator[None]:
    """During the `with` block, do not repeat this thread's requests if the API server is busy."""
    token = _skips_busy_retries.set(True)
    try:
        yield
    finally:
        _skips_busy_retries.reset(token)


def retries() -> Retry:
    """Return the retry policy for requests to the API server.

    A request is repeated once if the connection was closed, and several times within a short wait
    if the API server is busy.
    """
    # If the API server stays busy, return its last response instead of raising a connection error.
    return _Patience(
        total=4, connect=0, read=1, redirect=0, status=3, other=0, raise_on_status=False
    )


class _Patience(Retry):
    """A retry policy that limits the total waiting time.

    If the API server demands a longer wait, the caller gets the server's response instead.
    """

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        if _skips_busy_retries.get() and has_retry_after:
            return False
        # A busy server has not processed the request, so any HTTP method may be repeated.
        is_busy = has_retry_after and status_code == _TOO_MANY
        return is_busy or super().is_retry(method, status_code, has_retry_after)

    def increment(
        self, method: str | None = None, url: str | None = None, response: Any = None, *more: Any,
        **options: Any,
    ) -> _Patience:  # fmt: skip
        if response is not None and self._has_waited(response):
            raise MaxRetryError(options["_pool"], url or "")
        return super().increment(method, url, response, *more, **options)

    def _has_waited(self, response: Any) -> bool:
        times = 1 + sum(request.status is not None for request in self.history)
        return (self.get_retry_after(response) or 0.0) * times > LONGEST_WAIT
