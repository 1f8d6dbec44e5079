"""Waits in asynchronous code: each wait has a thread of its own that ends with its task."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(run: Callable[[], T], cut: Callable[[], None], name: str) -> T:
    """Run a function in its own thread and return its value; `cut` ends it if cancelled.

    The thread is not one of the loop's own: these are few, and keep a program from ending.
    """
    import asyncio  # imported here: few scripts await, and the import is slow

    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)  # type: ignore[arg-type]  # set unless there is an error

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
            pass  # the loop is closed, and nothing waits

    threading.Thread(target=work, name=name, daemon=True).start()
    try:
        return await done
    finally:
        cut()
