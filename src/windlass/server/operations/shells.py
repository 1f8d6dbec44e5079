"""Streams output from shells to clients, and forwards input to shells."""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import time
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from windlass.model.errors import Conflict, NotFound
from windlass.model.records import TrialKind, TrialRecord, TrialState
from windlass.model.status import ReplicaId
from windlass.model.text.terminal_screen import replay
from windlass.runtimes import paths
from windlass.server.operations.describe import describe
from windlass.server.services import Services
from windlass.server.web.messages import PING, event
from windlass.server.web.notifications import QUEUE
from windlass.worker.shell import input_pipe, output_log

_PIECE = 64 * 1024
_REPLAYED = 256 * 1024  # the most bytes of earlier output that a new client gets
_SEARCHED = 4 << 20  # the bytes of earlier output that are searched for terminal modes
_PATIENCE = 5.0  # seconds to wait for a shell to read its input

_writing: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()


async def shell_record(services: Services, trial_id: int) -> TrialRecord:
    """Return the current record of the shell that has this id."""
    record = await services.trials.record(trial_id)
    if record.kind is not TrialKind.SHELL:
        raise NotFound(
            f"There is no shell {trial_id}: trial {record.id} ({record.name}) is a "
            f"{record.kind.value}.",
            hint="See them all: windlass shell ls",
        )
    return record


async def follow_shell(
    services: Services, trial_id: int, offset: int | None, *, follows: bool = True
) -> AsyncGenerator[bytes, None]:
    """Yield server-sent events until the shell has ended and all its output has been sent.

    The stream starts at the position `offset` or, if it is None, with the current screen. If
    `follows` is false, the stream ends after the existing output.
    """
    topics = (trial_id, QUEUE)
    news = services.hub.subscribe(*topics)
    folder = _folder(services, trial_id)
    sent: TrialRecord | None = None
    try:
        position = 0 if offset is None else offset
        if offset is None:
            data, position = await asyncio.to_thread(_shown_now, folder)
            yield _output(data, position)
        while not services.hub.is_closing:
            news.clear()
            record = await describe(services, trial_id)
            if record != sent and not record.state.is_final:
                yield event("trial", msgspec.json.encode(record))
                sent = record
                if record.state is not TrialState.QUEUED:
                    services.hub.unsubscribe(news, QUEUE)
            while True:
                start, data = output_log.read(folder, position, _PIECE)
                if not data:
                    break
                position = start + len(data)
                yield _output(data, position)
                await asyncio.sleep(0)  # endless output must not block other requests
            if record.state.is_final or not follows:
                yield event("end", msgspec.json.encode(record))
                return
            while not news.is_set():
                try:
                    await asyncio.wait_for(news.wait(), PING)
                except asyncio.TimeoutError:
                    yield b": %d\n\n" % int(time.time())
    finally:
        services.hub.unsubscribe(news, *topics)


async def type_into(
    services: Services, trial_id: int, writer: bytes, position: int, data: bytes, *, is_last: bool
) -> int:
    """Forward input to a shell, and return how many bytes the shell accepted.

    `position` is the number of bytes that the client typed before this input.
    """
    frames = [*input_pipe.typed(writer, position, data), *([input_pipe.ended()] if is_last else ())]
    return min(await _hand_on(services, trial_id, frames), len(data))


async def resize(services: Services, trial_id: int, rows: int, columns: int) -> None:
    """Resize a shell's terminal."""
    await _hand_on(services, trial_id, [input_pipe.resized(rows, columns)])


async def _hand_on(services: Services, trial_id: int, frames: Iterable[bytes]) -> int:
    """Write frames of input to a shell's pipe until the pipe accepts no more.

    Return how many bytes of input, not counting the frames' headers, were written.
    """
    lock = _writing.setdefault(trial_id, asyncio.Lock())
    async with lock:  # keeps the frames of one request together
        pipe = await _open_keyboard(services, trial_id)
        taken = 0
        try:
            for frame in frames:
                if not await _write(pipe, frame):
                    break
                taken += len(input_pipe.content_of(frame))
        except BrokenPipeError:
            raise _gone(trial_id) from None
        finally:
            os.close(pipe)
        return taken


async def _open_keyboard(services: Services, trial_id: int) -> int:
    """Open a shell's input pipe. If the shell is just starting, wait for the pipe."""
    path = os.path.join(_folder(services, trial_id), input_pipe.PIPE)
    news = services.hub.subscribe(trial_id)
    until = time.monotonic() + _PATIENCE
    try:
        while True:
            news.clear()
            record = await shell_record(services, trial_id)
            if record.state.is_final:
                raise _gone(trial_id)
            try:
                return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENXIO):
                    raise
            try:
                await asyncio.wait_for(news.wait(), max(until - time.monotonic(), 0))
            except asyncio.TimeoutError:
                raise Conflict(
                    f"Shell {trial_id} is {record.state.value.lower()} and accepts no input yet.",
                    hint=f"See why it waits: windlass show {trial_id}",
                ) from None
    finally:
        services.hub.unsubscribe(news, trial_id)


async def _write(pipe: int, frame: bytes) -> bool:
    """Write a whole frame to a shell's input pipe once the pipe has space.

    Return False after a timeout.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            os.write(pipe, frame)
            return True
        except BlockingIOError:
            if time.monotonic() >= until or not await _has_room(pipe, until):
                return False


async def _has_room(pipe: int, until: float) -> bool:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(pipe, ready.set)
    try:
        await asyncio.wait_for(ready.wait(), max(until - time.monotonic(), 0))
    except asyncio.TimeoutError:
        return False
    finally:
        loop.remove_writer(pipe)
    return True


def _gone(trial_id: int) -> Conflict:
    return Conflict(
        f"Shell {trial_id} has ended and accepts no input.",
        hint="Open another: windlass shell",
    )


def _shown_now(folder: str) -> tuple[bytes, int]:
    """Return output that approximately redraws a shell's current screen.

    The second element is the position in the shell's output after this screen.
    """
    last = output_log.end(folder)
    position, pieces = max(last - _SEARCHED, 0), []
    while position < last:
        start, data = output_log.read(folder, position, last - position)
        if not data:
            break
        pieces.append(data)
        position = start + len(data)
    return replay(b"".join(pieces), _REPLAYED), position


def _output(data: bytes, position: int) -> bytes:
    return event("output", base64.b64encode(data), str(position))


def _folder(services: Services, trial_id: int) -> str:
    """Return the directory of a shell's attempt.

    There is only one attempt, because a shell never restarts.
    """
    return str(paths.attempt_dir(Path(services.home.path), trial_id, _ONLY))


_ONLY = ReplicaId("main", 0, 1)
