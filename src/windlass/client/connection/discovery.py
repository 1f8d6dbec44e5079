"""Finds a Windlass home's server, or starts an embedded server if none is running.

Each home has one server. A client holds `start.lock` while it starts the server. If ten clients
start at the same time, one of them starts the server and the others use it. No client polls: the
new server reports through a pipe that it is ready, and the other clients wait for the lock. Both
waits have a time limit (`start_waits.py`).
"""

from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from windlass.client.connection.http import connect_local
from windlass.client.connection.in_pod import check_asking
from windlass.client.connection.start_waits import read_start_report, take_start_lock
from windlass.home import Home
from windlass.model.errors import InvalidArgument, ServerError, ServerUnreachable, VersionMismatch
from windlass.model.versions import API_LEVEL, is_accepted, mismatch
from windlass.version import __version__
from windlass.worker.common.atomic_files import is_locked, set_irregular_aside
from windlass.worker.common.file_reads import read_json
from windlass.worker.common.token_file import read_token

_SERVER = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "server", "__main__.py"
)
_LONGEST_SOCKET = 100  # bytes; the maximum length of a Unix socket's path
_LARGEST_FILE = 1 << 16  # bytes
_OF_A_TRIAL = ("WINDLASS_TRIAL", "WINDLASS_REPLICA")


class Endpoint(NamedTuple):
    """A server's address, and the token for requests to it."""

    url: str
    token: str
    home: Home | None  # set only for an embedded server, which runs on this machine
    socket: str = ""  # the Unix socket of the embedded server
    original: str = ""  # the original home, if this home is a copy

    @property
    def is_embedded(self) -> bool:
        return self.home is not None

    def check_owner(self) -> None:
        """Raise an error if another user could have created this server's Unix socket."""
        assert self.home is not None  # noqa: S101 -- only an embedded server has a socket
        self.home.check_socket(self.socket)


def named_endpoint(server: str | None = None, token: str | None = None) -> Endpoint | None:
    """Return the server named by the arguments or by environment variables, or None.

    The variables are `WINDLASS_SERVER` and `WINDLASS_TOKEN`.
    """
    url = server or os.environ.get("WINDLASS_SERVER")
    if not url:
        return None
    if not _is_address(url):
        raise InvalidArgument(
            f"{url!r} is not a valid server address.",
            hint="Set WINDLASS_SERVER to something like http://host:8000, or unset it.",
        )
    key = token or os.environ.get("WINDLASS_TOKEN", "")
    if not key:
        raise InvalidArgument(
            f"There is no token for {url}.", hint="Set WINDLASS_TOKEN to the server's token."
        )
    if not (key.isascii() and key.isprintable()):
        raise InvalidArgument(
            f"The token for {url} contains invalid characters.",
            hint="Set WINDLASS_TOKEN to the server's token, without a line break.",
        )
    return Endpoint(url.rstrip("/"), key, None)


def _is_address(url: str) -> bool:
    """Return whether text is a valid HTTP or HTTPS URL.

    >>> [_is_address(url) for url in ("http://lab:8000", "lab:8000", "http://lab:eight")]
    [True, False, False]
    """
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is invalid, or an IPv6 address is incomplete
        return False


def running_endpoint(home: Home) -> Endpoint | None:
    """Return a home's embedded server, or None if it is not running.

    A killed server leaves its server file behind in the home. A server therefore counts as running
    only while a process holds the home's server lock. A server whose home was moved does not count,
    because it is about to stop.
    """
    described = describe_server(home)
    if described is None or not is_locked(str(home.server_lock)):
        return None
    if not _is_directory(described.get("home", home.path), described.get("directory")):
        return None
    _check_level(described, home)
    try:
        token = read_token(str(home.token))
        if not token:
            raise ValueError("it is missing or not a regular file")
    except ValueError as error:
        raise ServerError(
            f"The server's token cannot be used: {error} ({home.token}).",
            hint="Restart the server, which writes a new token: windlass server stop (running "
            "trials continue), then try again.",
        ) from error
    except OSError as error:
        raise ServerError(
            f"The server's token cannot be read: {error.strerror} ({home.token}).",
            hint="If the directory belongs to another user, set WINDLASS_HOME to a "
            "directory of yours.",
        ) from error
    path = os.path.join(home.path, str(described.get("socket", "")))
    if len(os.fsencode(path)) > _LONGEST_SOCKET:  # resolving links may shorten the path
        path = os.path.realpath(path)
    return Endpoint(str(described["url"]), token, home, path, str(described.get("copy_of") or ""))


def describe_server(home: Home) -> dict[str, Any] | None:
    """Read a home's server file, in which the server describes itself.

    Return None if the file does not exist.

    In a copied home, the server file is ignored, because it describes the original home's server.
    """
    try:
        described = read_json(str(home.server_file), _LARGEST_FILE)
    except PermissionError as error:
        raise ServerError(
            f"The state directory cannot be read: {home.path}.",
            hint="If it belongs to another user, set WINDLASS_HOME to a directory of yours.",
        ) from error
    except OSError:
        return None
    if described is None or "url" not in described:
        return None
    return described if _is_directory(home.path, described.get("directory")) else None


def _is_directory(path: str | os.PathLike[str], directory: object) -> bool:
    """Return whether a path is the directory with the given device and inode.

    If `directory` is None, any existing directory counts.
    """
    try:
        status = os.stat(path)
    except OSError:
        return False
    return directory in (None, [status.st_dev, status.st_ino])


def is_answering(endpoint: Endpoint) -> bool:
    """Return whether an embedded server accepts connections."""
    try:
        endpoint.check_owner()
        connect_local(endpoint.socket, timeout=5).close()
    except OSError:
        return False
    return True


def start_server(home: Home) -> Endpoint:
    """Start a home's embedded server unless it is running, and wait until it is ready."""
    check_asking()
    try:
        home.make()
        set_irregular_aside(str(home.start_lock))
        lock = take_start_lock(home.start_lock)
    except OSError as error:
        raise ServerError(
            f"The state directory cannot be used: {error.strerror} ({home.path}).",
            hint="Set WINDLASS_HOME to a directory you can write to.",
        ) from error
    try:
        endpoint = running_endpoint(home)
        if endpoint is not None and is_answering(endpoint):
            return endpoint
        try:
            _launch(home)
        except ServerError:
            # A running server recreates its server file if the file was deleted, so look again.
            endpoint = running_endpoint(home)
            if endpoint is None or not is_answering(endpoint):
                raise
            return endpoint
        started = running_endpoint(home)
    finally:
        os.close(lock)
    if started is None:
        raise ServerUnreachable("The server stopped right after its start.", hint=_log_hint(home))
    return started


def _launch(home: Home) -> None:
    import subprocess

    reader, writer = os.pipe()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(_OF_A_TRIAL)}
    # A server that is started inside a trial must outlive that trial.
    environment["WINDLASS_DETACHED"] = "1"
    # The user's modules must not replace modules of the server.
    environment.pop("PYTHONPATH", None)
    paths = [os.path.abspath(path) for path in sys.path if path]
    try:
        set_irregular_aside(str(home.server_log))
        with open(home.server_log, "ab", opener=_owner_only) as log:
            process = subprocess.Popen(
                [sys.executable, _SERVER, str(home.path), str(writer), *paths],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=environment,
                pass_fds=(writer,),
                start_new_session=True,
            )
    except OSError as error:
        os.close(writer)
        os.close(reader)
        raise ServerError(f"The server could not be started: {error}.") from error
    os.close(writer)
    try:
        answer = read_start_report(reader, process.pid, home.server_log)
    finally:
        os.close(reader)
    if answer != b"ready":
        why = answer.decode("utf-8", "replace").strip() or "It stopped before it was ready."
        # If the server was killed, a new attempt may succeed. Otherwise, its report gives the
        # reason.
        kind = ServerUnreachable if not answer and process.wait() < 0 else ServerError
        raise kind(f"The server could not be started. {why}", hint=_log_hint(home))


def _check_level(described: dict[str, Any], home: Home) -> None:
    """Raise an error if the server would reject this client because of its version."""
    version, level = str(described.get("version", "")), described.get("api_level")
    if not isinstance(level, int):
        level = None
    if level is not None and is_accepted(API_LEVEL, level):
        return
    own_home = "Or set WINDLASS_HOME to another directory for this version."
    if level is None or level < API_LEVEL:
        hint = (
            "Restart it with this version: windlass server stop (running trials continue), then "
            f"try again.\n{own_home}"
        )
    else:
        hint = f"Install Windlass {version} here, too.\n{own_home}"
    message = mismatch(__version__, API_LEVEL, version, level)
    raise VersionMismatch(f"{message} The server's home is {home.path}.", hint=hint)


def _log_hint(home: Home) -> str:
    return f"See its log: {home.server_log}\nCheck the setup: windlass doctor"


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
