"""Routes, which call handler functions. A handler's signature defines the request and the response.

A handler's arguments come from several sources. Placeholders in the path supply the parameters of
the same name, `data` is the body, and the router passes `request` and `services`. All other
parameters come from the query and are validated against their annotations. No text can contain a
NUL character (`nul_check.py`). The return value is sent as JSON unless it is an `Answer`. A list's
cursor is bound to its query (`cursor_binding.py`). The OpenAPI document is built from the same
signatures.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, get_type_hints
from urllib.parse import parse_qsl

import msgspec

from windlass.model.errors import NotFound
from windlass.model.requests import Fault
from windlass.model.thread_safe_types import learned
from windlass.server.errors import is_disk_full
from windlass.server.web.agent_token import AGENTS
from windlass.server.web.cursor_binding import bind, hash_query, unbind
from windlass.server.web.messages import JSON, Answer, Refused, Request
from windlass.server.web.nul_check import check_body, check_parameters

Handler = Callable[..., Awaitable[Any]]

_RESERVED = ("request", "services", "data", "return")
_BLANK = re.compile(r"\{(\w+)(?::(int|path))?\}")
_BLANKS = {None: r"[^/]+", "int": r"-?[0-9]{1,30}", "path": r".+"}
_LARGEST_BODY = 1 << 20
_ODD = re.compile(r"[\udc80-\udcff]")  # an invalid UTF-8 byte as decoded with `surrogateescape`


class Route:
    """A route: a method, a path that can contain placeholders, and a handler function."""

    def __init__(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        status: int = 200,
        media_type: str = JSON,
        largest_body: int | None = _LARGEST_BODY,
        is_log: bool = False,
        is_read: bool | None = None,
        frees_space: bool = False,
    ) -> None:
        self.method = method
        # Some requests that only read use POST, because they need a body.
        self.is_read = method == "GET" if is_read is None else is_read
        self.path = _BLANK.sub(r"{\1}", path)
        self.handler = handler
        self.status = status
        self.media_type = media_type
        self.largest_body = largest_body
        self._frees_space = frees_space or method == "DELETE"
        self.hints = get_type_hints(handler, include_extras=True)
        self.blanks = dict(_BLANK.findall(path))
        self.body: Any = self.hints.get("data")
        self.query = _query_type(handler, self.hints, self.blanks)
        self._takes = set(self.hints)
        # Log cursors are not bound, because a client that follows a log may change its other
        # parameters.
        is_list = "cursor" in self.hints and hasattr(self.hints.get("return"), "next")
        self._binds_cursors = is_list and not is_log
        # Agents may send NUL, because they send data that programs wrote, and no report of an
        # attempt's end may be lost.
        self._refuses_nul = not path.startswith(AGENTS)
        self._decoder = msgspec.json.Decoder(learned(self.body)) if self.body is not None else None
        pattern = _BLANK.sub(lambda m: f"(?P<{m[1]}>{_BLANKS[m[2]]})", path)
        self.pattern = re.compile(pattern, re.DOTALL)

    async def answer(
        self, request: Request, services: Any, path: dict[str, str], query: str
    ) -> Answer:
        """Call the handler with arguments from a request, and return the response."""
        arguments: dict[str, Any] = {
            name: int(text) if self.blanks[name] == "int" else text for name, text in path.items()
        }
        if self._refuses_nul:
            check_parameters(path)
        if self.query is not None:
            parameters = _parse_query(query)
            if self._refuses_nul:
                check_parameters(parameters)
            arguments.update(_read_query(self.query, parameters))
        mark = hash_query(self.path, arguments) if self._binds_cursors else ""
        if mark and arguments["cursor"] is not None:
            arguments["cursor"] = unbind(arguments["cursor"], mark)
        if self._decoder is not None:
            body = await request.body()
            if self._refuses_nul:
                check_body(body)
            arguments["data"] = self._decoder.decode(body)
        if "request" in self._takes:
            arguments["request"] = request
        if "services" in self._takes:
            arguments["services"] = services
        answer = await self._handle(arguments, services)
        if isinstance(answer, Answer):
            return answer
        if mark and answer.next is not None:
            answer = msgspec.structs.replace(answer, next=bind(answer.next, mark))
        return Answer(msgspec.json.encode(answer), self.status)

    async def _handle(self, arguments: dict[str, Any], services: Any) -> Any:
        """Call the handler.

        If a request that frees space fails on a full disk, release the space reserve and repeat the
        call.
        """
        try:
            return await self.handler(**arguments)
        except Exception as error:
            if not (self._frees_space and is_disk_full(error) and services.reserve.release()):
                raise
        return await self.handler(**arguments)


class Match(NamedTuple):
    """A route that matches a path, and the values of the path's placeholders."""

    route: Route
    blanks: dict[str, str]


class Routes:
    """All routes. Paths without placeholders are found by a dictionary lookup."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._plain: dict[str, list[Route]] = {}
        self._others: list[Route] = []
        for route in routes:
            if route.blanks:
                self._others.append(route)
            else:
                self._plain.setdefault(route.path, []).append(route)

    def find(self, method: str, path: str) -> Match:
        """Return the route for a method and a path. Raise an error if there is none."""
        allowed = []
        # Remove a trailing slash only if no route matches otherwise, because a name at the end of a
        # path may itself end with a slash.
        for spelling in dict.fromkeys((path, path.rstrip("/"))):
            for route, blanks in self._candidates(spelling):
                if route.method == method:
                    return Match(route, blanks)
                allowed.append(route.method)
        if not allowed:
            raise NotFound(
                f"There is no path {path[:200]}.",
                hint="See the list of paths: GET /api/v1/schema/openapi.json",
            )
        methods = ", ".join(sorted(set(allowed)))
        message = f"Method {method[:20]} is not allowed for this path."
        fault = Fault(code="not_found", message=message, hint=f"Use: {methods}")
        raise Refused(405, fault, {"Allow": methods})

    def _candidates(self, path: str) -> Iterable[tuple[Route, dict[str, str]]]:
        for route in self._plain.get(path, ()):
            yield route, {}
        for route in self._others:
            match = route.pattern.fullmatch(path)
            if match:
                yield route, match.groupdict()


def _query_type(handler: Handler, hints: dict[str, Any], blanks: Iterable[str]) -> Any:
    """Return a struct type that has one field for each of a handler's query parameters."""
    fields: list[tuple[str, Any, Any]] = []
    for name, parameter in inspect.signature(handler).parameters.items():
        if name not in _RESERVED and name not in blanks:
            is_needed = parameter.default is parameter.empty
            default = msgspec.NODEFAULT if is_needed else parameter.default
            fields.append((name, hints[name], default))
    return msgspec.defstruct("Query", fields, kw_only=True) if fields else None


def _parse_query(text: str) -> dict[str, str]:
    pairs = parse_qsl(text, keep_blank_values=True, errors="surrogateescape")
    return {_sayable(name): _sayable(value) for name, value in pairs}


def _read_query(wanted: Any, parameters: dict[str, str]) -> dict[str, Any]:
    read = msgspec.convert(parameters, learned(wanted), strict=False)
    return {name: getattr(read, name) for name in wanted.__struct_fields__}


def _sayable(text: str) -> str:
    r"""Escape the invalid bytes in a text that is not UTF-8, so that texts stay distinct.

    >>> _sayable("caf\udce9 100%"), _sayable("café 100%")
    ('caf%E9 100%25', 'café 100%')
    """
    if not _ODD.search(text):
        return text
    return _ODD.sub(lambda odd: f"%{ord(odd[0]) - 0xDC00:02X}", text.replace("%", "%25"))
