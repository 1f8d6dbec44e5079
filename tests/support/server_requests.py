"""Requests to a running server from a foreign client."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from windlass.version import __version__

API = "/api/v1"


class Server:
    """A running server, requested without Windlass's own client."""

    def __init__(self, home: Path) -> None:
        self.url = json.loads((home / "server.json").read_text())["url"]
        self.token = (home / "token").read_text().strip()
        self._address = urlsplit(self.url)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        token: str | None = "",
        **headers: str,
    ) -> tuple[int, Any]:
        """Return the status and the body; `token` is valid by default, `None` sends no token."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token or self.token}"
        connection = http.client.HTTPConnection(
            str(self._address.hostname), self._address.port, timeout=60
        )
        try:
            connection.request(method, path, body=body, headers=sent)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        assert answer.headers["Windlass-Version"] == __version__
        is_json = "json" in answer.headers.get("Content-Type", "")
        return answer.status, json.loads(data) if is_json and data else data

    def submit(self, trial: dict[str, Any]) -> tuple[int, Any]:
        """Submit a trial."""
        body = json.dumps(trial).encode()
        return self.ask("POST", f"{API}/trials", body, Content_Type="application/json")
