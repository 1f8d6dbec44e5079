"""Routes for shells: stream the output, send input, and resize the terminal."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.model.requests import API, ShellSize, ShellTaken
from windlass.server.operations import shells
from windlass.server.services import Services
from windlass.server.web.messages import EVENTS, Answer, Request
from windlass.server.web.routing import Route

_MOST_TYPED = 64 * 1024  # bytes of input in one request

Position = Annotated[int, Meta(ge=0, le=2**62)]
Writer = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]


async def stream_output(
    services: Services, trial_id: int, offset: Position | None = None, follow: bool = True
) -> Answer:
    """Stream a shell's output. Without `offset`, the stream starts with the current screen."""
    record = await shells.shell_record(services, trial_id)
    if follow and not record.state.is_final:
        services.refuse_in_copy()  # no server changes a copied home's trials
    return Answer(
        shells.follow_shell(services, trial_id, offset, follows=follow),
        media_type=EVENTS,
        headers={"Cache-Control": "no-store"},
    )


async def take_input(
    request: Request,
    services: Services,
    trial_id: int,
    writer: Writer,
    offset: Position = 0,
    last: bool = False,
) -> ShellTaken:
    """Type the request body into a shell.

    The shell gets the input only once, even if the request is repeated.
    """
    await shells.shell_record(services, trial_id)
    data = await request.body()
    key = bytes.fromhex(writer)
    taken = await shells.type_into(services, trial_id, key, offset, data, is_last=last)
    return ShellTaken(taken=taken)


async def take_size(services: Services, trial_id: int, data: ShellSize) -> ShellSize:
    """Resize a shell's terminal."""
    await shells.shell_record(services, trial_id)
    await shells.resize(services, trial_id, data.rows, data.columns)
    return data


_SHELL = f"{API}/shells/{{trial_id:int}}"
routes = [
    Route("GET", f"{_SHELL}/output", stream_output, media_type=EVENTS),
    Route("POST", f"{_SHELL}/input", take_input, largest_body=_MOST_TYPED),
    Route("POST", f"{_SHELL}/size", take_size),
]
