"""A foreign server in place of a cluster, with an untrusted certificate."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from pathlib import Path


def certified_by_itself(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate and its key."""
    certificate, key = folder / "stranger.crt", folder / "stranger.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=somebody-else", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


class Stranger:
    """A TLS server with such a certificate."""

    def __init__(self, folder: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*certified_by_itself(folder))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        threading.Thread(target=self._answer, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _answer(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                with self._context.wrap_socket(near, server_side=True) as secure:
                    secure.recv(1)
            except ssl.SSLError:
                continue  # the client does not trust this server, as expected
            except OSError:
                return
