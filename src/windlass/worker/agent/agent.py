"""The agent's main program, which runs an attempt on a machine without a server.

The agent exits with the user program's exit code.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

import windlass.worker
from windlass.worker.agent.fetch_attempt import AttemptDownload
from windlass.worker.agent.http_channel import Channel, GivenUp, Refused
from windlass.worker.agent.orders import Orders
from windlass.worker.agent.upload_files import EXIT, LOST
from windlass.worker.agent.uploader import Uploader
from windlass.worker.common.atomic_files import write_json, write_json_once
from windlass.worker.common.file_reads import exists, read_json, retried
from windlass.worker.supervise.signals import SignalPipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

CONFIG = "/windlass/agent.json"
HOME = "/windlass-home"
STOPPED = 143  # exit code of an agent that was stopped before its program started
UNABLE = 125  # exit code of an agent that could not start its program
_HAND_OVER = 5.0  # seconds of the grace period reserved for the last uploads
_DEFAULT_GRACE = 30.0
_STOP_RETRIES = 2.0  # seconds to retry writing the grace period on a full disk


def main() -> None:
    """Run the attempt given by environment variables, and exit with its exit code."""
    sys.exit(Agent(os.environ).run())


class Agent:
    """Runs one attempt on a machine without a server.

    The main thread handles signals and the supervisor's end, and never waits for the server. Other
    threads communicate with the server.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        path = environ.get("WINDLASS_AGENT_CONFIG", CONFIG)
        # Kubernetes mounts a Secret's files as links.
        config = retried(lambda: read_json(path, follow_links=True))
        if config is None:
            sys.exit("windlass: no address of the server is set")
        self._home = environ.get("WINDLASS_AGENT_HOME", HOME)
        self._grace = float(environ.get("WINDLASS_AGENT_GRACE") or _DEFAULT_GRACE)
        which = [environ[f"WINDLASS_AGENT_{field}"] for field in ("ROLE", "INDEX", "ATTEMPT")]
        self._base = f"/api/v1/agents/{config['uid']}/{'/'.join(which)}"
        self._signals = SignalPipe()
        self._channel = _open_channel(config)
        self._give_up: float | None = None  # when Kubernetes kills this process
        self._stopping = threading.Lock()
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._dir = ""
        self._error = ""

    def run(self) -> int:
        """Run the attempt, upload all its data, and return the program's exit code."""
        if not self._wait_for(_BackgroundTask(self._download), is_patient=False):
            return STOPPED
        if self._error:
            sys.stderr.write(f"windlass: the attempt could not be fetched: {self._error}\n")
            return UNABLE
        notifications = self._open_notification_socket()
        self._start_supervisor()
        orders = Orders(self._channel, self._base, self._dir, self._stop)
        uploader = Uploader(self._channel, self._base, self._dir)
        self._forward_until_end(notifications, uploader)
        self._complete_exit_record()
        if not orders.is_dismissed:
            is_taken_away = self._give_up is not None
            finish = _BackgroundTask(lambda: uploader.finish(is_taken_away=is_taken_away))
            self._wait_for(finish, is_patient=True)
        self._channel.close()
        record = retried(lambda: read_json(os.path.join(self._dir, EXIT))) or {}
        code = record.get("exit_code")
        return code if isinstance(code, int) and 0 <= code <= 255 else 1

    def _download(self) -> None:
        try:
            self._dir = AttemptDownload(self._channel, self._base, self._home).download()
        except (Refused, OSError, ValueError, KeyError) as error:
            self._error = str(error) or type(error).__name__
        except GivenUp:
            pass

    def _wait_for(self, task: _BackgroundTask, *, is_patient: bool) -> bool:
        """Wait for a background task. Return False if a stop signal comes first.

        If `is_patient`, a stop signal does not end the wait until shortly before Kubernetes kills
        this process.
        """
        poll = select.poll()
        for fd in (task.fileno(), self._signals.fileno()):
            poll.register(fd, select.POLLIN)
        while not task.is_done:
            left = None if self._give_up is None else self._give_up - time.monotonic()
            if left is not None and (left <= 0 or not is_patient):
                return False
            poll.poll(None if left is None else left * 1000)
            self._receive_signals()
        return True

    def _open_notification_socket(self) -> socket.socket:
        """Open the socket on which the supervisor and the program report written files."""
        notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = os.path.join(self._home, "nudge.sock")
        retried(lambda: _unlink(path))
        notifications.bind(path)
        notifications.setblocking(False)
        retried(lambda: write_json(os.path.join(self._home, "server.json"), {"nudge": path}))
        return notifications

    def _start_supervisor(self) -> None:
        worker = os.path.dirname(os.path.abspath(windlass.worker.__file__))
        own = {k: v for k, v in os.environ.items() if not k.startswith("WINDLASS_")}
        argv = [sys.executable, "-I", "-S", os.path.join(worker, "supervisor.py"), self._dir]
        self._supervisor = subprocess.Popen(argv, env=own)

    def _forward_until_end(self, notifications: socket.socket, uploader: Uploader) -> None:
        """Pass nudges to the uploader and stop signals to the supervisor.

        Return when the supervisor has ended.
        """
        poll = select.poll()
        for fd in (notifications.fileno(), self._signals.fileno()):
            poll.register(fd, select.POLLIN)
        while not self._has_ended():
            poll.poll()  # a signal also announces the supervisor's end
            if self._receive_signals():
                self._stop(max(0.0, self._grace - _HAND_OVER))
            for message in _receive_all(notifications):
                uploader.notify(message)

    def _has_ended(self) -> bool:
        return self._supervisor is None or self._supervisor.poll() is not None

    def _receive_signals(self) -> bool:
        """Return whether Kubernetes is stopping this agent, for example by deleting its pod."""
        if signal.SIGTERM not in self._signals.drain():
            return False
        if self._give_up is None:
            self._give_up = time.monotonic() + self._grace
        return True

    def _stop(self, grace: float, interrupt: bool = False) -> None:
        """Tell the supervisor to stop the program within a grace period in seconds.

        If `interrupt` is true, the first signal is SIGINT.

        The supervisor reads the grace period from a file. If the disk is too full for this file,
        the stop has no grace period.
        """
        with self._stopping:
            try:
                path = os.path.join(self._dir, "stop.json")
                order = {"grace": grace, "interrupt": interrupt, "reason": ""}
                retried(lambda: write_json(path, order), _STOP_RETRIES)
            except OSError as error:
                sys.stderr.write(
                    "windlass: stopping without a grace period, which could not be "
                    f"written: {error}\n"
                )
            if self._supervisor is not None and self._supervisor.poll() is None:
                self._supervisor.terminate()

    def _complete_exit_record(self) -> None:
        """Write an exit record if the supervisor was killed before it could write one."""
        path = os.path.join(self._dir, EXIT)
        if retried(lambda: exists(path)):
            return
        state = retried(lambda: read_json(os.path.join(self._dir, "state.json"))) or {}
        record = {
            "exit_code": None,
            "signal": "",
            **LOST,
            "started": state.get("started"),
            "ended": time.time(),
        }
        try:
            retried(lambda: write_json_once(path, record))
        except OSError as error:
            sys.stderr.write(f"windlass: the exit record could not be written: {error}\n")


def _open_channel(config: Mapping[str, Any]) -> Channel:
    port = config.get("port")
    try:
        return Channel(config.get("urls") or (), config["token"], port)
    except OSError as error:
        sys.exit(
            f"windlass: the server connects to port {port} of this pod, which another "
            f"program uses ({error.strerror}). Two pods with hostNetwork on one machine "
            "cannot share it. Run them on different machines, or without hostNetwork."
        )


class _BackgroundTask:
    """A task in its own thread.

    The descriptor `fileno()` becomes readable when the task is done.
    """

    def __init__(self, do: Callable[[], None]) -> None:
        self._read, self._write = os.pipe()
        self._do = do
        self.is_done = False
        threading.Thread(target=self._run, name="windlass-background", daemon=True).start()

    def fileno(self) -> int:
        return self._read

    def _run(self) -> None:
        try:
            self._do()
        finally:
            self.is_done = True
            os.write(self._write, b"x")


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _receive_all(notifications: socket.socket) -> list[bytes]:
    messages = []
    while True:
        try:
            messages.append(notifications.recv(4096))
        except BlockingIOError:
            return messages
