"""Runs blocking waits for asynchronous code, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(run: Callable[[], T], cut: Callable[[], None], name: str) -> T:
    """Run a blocking function in a new thread and return its result.

    Calling `cut` must make the function return early. It is called if the waiting task is
    cancelled.

    The event loop's default executor is not used, because it has few threads, and because Python
    waits for those threads at exit.
    """
    import asyncio  # imported late, because the import is slow and few scripts need it

    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)  # type: ignore[arg-type]  # `value` is set unless there is an error

    def work() -> None:
        value: T | None = None
        failure: BaseException | None = None
        try:
            value = run()
        except BaseException as error:  # noqa: BLE001 -- raised in the waiting task
            failure = error
        try:
            loop.call_soon_threadsafe(settle, value, failure)
        except RuntimeError:
            pass  # the event loop is closed, so no task waits for the result

    threading.Thread(target=work, name=name, daemon=True).start()
    try:
        return await done
    finally:
        cut()
