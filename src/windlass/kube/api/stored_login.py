"""The server's stored login: a file in the home that only the file's owner can read.

Only the server talks to the cluster. A script that calls `login()` writes this file, and `logout()`
removes it. Every new connection reads the file first.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

import msgspec

from windlass.home import Home
from windlass.model.errors import KubernetesError
from windlass.model.thread_safe_types import learned

_LARGEST = 1 << 20  # bytes


class TokenLogin(msgspec.Struct, frozen=True, kw_only=True, tag="token"):
    """A stored login that consists of the address of a cluster's API and a token."""

    server: str
    token: str
    skip_tls: bool = False
    ca_cert: str = ""  # the certificates and not their path, because the file may be deleted later

    def __repr__(self) -> str:
        return f"TokenLogin(server={self.server!r}, token=...)"


class ConfigFileLogin(msgspec.Struct, frozen=True, kw_only=True, tag="kubeconfig"):
    """A stored login that names a kubeconfig file. Each new connection reads the file again."""

    path: str


Login = TokenLogin | ConfigFileLogin
Stamp = tuple[int, int, int]  # identifies a version of a file; see `file_stamp`


def read_login(home: Home) -> Login | None:
    """Return the stored login, or None if there is none."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe would block
    try:
        with open(os.open(home.kubernetes_login, flags), "rb", buffering=0) as file:
            data = file.read(_LARGEST) or b""
    except FileNotFoundError:
        return None
    try:
        login: Login = msgspec.json.decode(data, type=learned(Login))
    except msgspec.DecodeError as error:
        raise KubernetesError(
            f"{home.kubernetes_login} cannot be read: {error}.",
            hint="Remove the file, and log in again.",
        ) from None
    return login


def write_login(home: Home, login: Login) -> None:
    """Store a login for all later connections."""
    _write(home, home.kubernetes_login, msgspec.json.encode(login))
    forget_strays(home)


def forget_login(home: Home) -> None:
    """Delete the stored login."""
    home.kubernetes_login.unlink(missing_ok=True)
    forget_strays(home)


def authority_file(home: Home, login: TokenLogin) -> str:
    """Write the certificates of a login to a file and return its path.

    The file is needed for WebSocket connections, which accept certificates only as a file.
    """
    path = _authority_path(home, login)
    if not path.exists():
        _write(home, path, login.ca_cert.encode())
    return str(path)


def forget_strays(home: Home) -> None:
    """Delete the certificate files of earlier logins."""
    login = read_login(home)
    kept = _authority_path(home, login) if isinstance(login, TokenLogin) else None
    for path in home.path.glob(f"{home.kubernetes_login.stem}-*.crt"):
        if path != kept:
            path.unlink(missing_ok=True)


def login_stamp(home: Home) -> Stamp | None:
    """Return a value that changes with every login and logout."""
    return file_stamp(home.kubernetes_login)


def file_stamp(path: str | Path) -> Stamp | None:
    """Return a value that changes whenever the file changes, or None if the file is missing.

    >>> file_stamp("/no/such/file") is None
    True
    """
    try:
        stat = os.stat(path)
    except OSError:
        return None
    # The stamp includes the size, because two writes may get the same time from a coarse clock.
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def _authority_path(home: Home, login: TokenLogin) -> Path:
    digest = hashlib.sha256(login.ca_cert.encode()).hexdigest()
    return home.path / f"{home.kubernetes_login.stem}-{digest[:16]}.crt"


def _write(home: Home, path: Path, data: bytes) -> None:
    home.make()
    temporary = f"{path}.{os.getpid()}.{secrets.token_hex(4)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
