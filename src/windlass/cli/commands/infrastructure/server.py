"""Implements `windlass server`, which starts, stops and inspects this machine's server."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.lazy_groups import Group
from windlass.cli.options.parameters import WholeNumber, json_option
from windlass.home import Home

if TYPE_CHECKING:
    from windlass.cli.options.server_probe import ServerProbe

_PATIENCE = 15  # seconds to wait until a server has stopped


@click.group(
    cls=Group,
    invoke_without_command=True,
    short_help="Start, stop and inspect the server of this machine.",
    epilog=examples("windlass server status", "windlass server logs --follow"),
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Start, stop and inspect this machine's server.

    The server starts automatically. Trials keep running while it is stopped.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command(
    short_help="Start the server in the background.",
    epilog=examples(
        "windlass server start",
    ),
)
def start() -> None:
    """Start the server in the background, unless it is already running."""
    from windlass.cli.options.server_probe import probe_server
    from windlass.client.connection.discovery import start_server

    home = _own_home()
    before = probe_server(home)
    endpoint = start_server(home)
    after = probe_server(home)
    verb = "runs already" if before.info and before.pid == after.pid else "is started"
    print(f"The server {verb}: {endpoint.url} (pid {after.pid}).")


@command.command(
    short_help="Run the server in the foreground, for containers.",
    epilog=examples(
        "windlass server run --listen 0.0.0.0:8000 --name windlass.example.org",
    ),
)
@click.option("--listen", metavar="HOST:PORT", help="Listen for other machines, too.")
@click.option(
    "--name", "names", multiple=True, metavar="HOST", help="Host name that clients use; repeatable."
)
def run(listen: str | None, names: tuple[str, ...]) -> None:
    """Run the server in the foreground, for containers and service managers.

    To give other machines access, use --listen and --name. These machines also need the token from
    the file 'token' in the Windlass home. The log is the file 'server.log' in the same folder.
    """
    import windlass.cli

    home = _own_home()
    home.make()
    os.environ.setdefault("WINDLASS_SERVER_IDLE", "never")
    if listen:
        os.environ["WINDLASS_LISTEN"] = listen
        os.environ["WINDLASS_NAMES"] = ",".join(names)
    program = str(Path(windlass.cli.__file__).parent.parent / "server" / "__main__.py")
    ready_fd = os.dup(1)
    os.set_inheritable(ready_fd, True)
    argv = [sys.executable, program, str(home.path), str(ready_fd), *sys.path[1:]]
    os.execv(sys.executable, argv)  # noqa: S606 -- a program of Windlass


@command.command(
    short_help="Stop the server. Trials keep running.",
    epilog=examples(
        "windlass server stop",
    ),
)
def stop() -> None:
    """Stop the server. Trials keep running, and the next server takes over."""
    home = _own_home()
    if not home.path.is_dir():
        print("No server was running.")
        return
    pid = _wait_until_stopped(home)
    if pid is None:
        print("No server was running.")
    else:
        print(f"The server (pid {pid}) is stopped. Running trials continue.")


@command.command(
    short_help="Make a copied home a home of its own.",
    epilog=examples(
        "windlass server adopt",
    ),
)
def adopt() -> None:
    """Turn a copy of a Windlass home into an independent home that continues its trials.

    Queued trials start. Trials that were running when the home was copied are recorded as lost.
    Their processes still belong to the original home and keep running there.
    """
    from windlass.cli.output.text import counted
    from windlass.client.connection.discovery import start_server
    from windlass.client.connection.transport import Transport
    from windlass.model.requests import Adopted

    home = _own_home()
    adopted = Transport().ask("POST", "/server/adopt", Adopted)
    _wait_until_stopped(home)
    start_server(home)
    print(f"{home.path} is a home of its own, independent of {adopted.original}. "
          f"It continues {counted(adopted.unfinished, 'trial')}.")  # fmt: skip


@command.command(
    short_help="Show the state of the server.",
    epilog=examples(
        "windlass server status",
    ),
)
@json_option
def status(as_json: bool) -> int:
    """Show whether the server is running, and its start time, address and load.

    The exit code is 1 if the server is not running or does not respond.
    """
    from windlass.cli.output.json import print_json
    from windlass.cli.output.text import print_message

    report = _report()
    if as_json:
        print_json(report)
    elif not report["running"]:
        print_message(f"No server is running for {report['home']}.\n"
            "The first command that needs it starts it. To start it now: windlass "
            "server start")  # fmt: skip
    else:
        _print_status(report)
        if not report["answering"]:
            print_message(f"It does not answer: {report['problem']}")
    return 0 if report["answering"] else 1


@command.command(
    short_help="Print the log of the server.",
    epilog=examples(
        "windlass server logs --follow",
    ),
)
@click.option("-f", "--follow", is_flag=True, help="Print new lines until Ctrl-C.")
@click.option(
    "-n",
    "--tail",
    type=WholeNumber(min=0),
    default=100,
    metavar="N",
    help="Print the last N lines (100).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def logs(follow: bool, tail: int, as_json: bool) -> None:
    """Print the last lines of the server's log."""
    from windlass.cli.output.json import print_json_line
    from windlass.cli.output.text import print_message

    home = _own_home()
    if not home.server_log.exists():
        print_message(f"There is no log yet: no server has run for {home.path}.")
        return
    lines = _followed_lines(home.server_log, tail) if follow else last_lines(home.server_log, tail)
    for line in lines:
        if as_json:
            print_json_line({"text": line})
        else:
            print(line)
        if follow:
            sys.stdout.flush()


def last_lines(path: Path, count: int) -> list[str]:
    r"""Return a file's last lines, reading backwards from its end.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "log")
    >>> _ = path.write_text("one\ntwo\nthree\n")
    >>> last_lines(path, 2)
    ['two', 'three']
    """
    if count == 0:
        return []
    data = b""
    from windlass.worker.common.file_reads import regular_only

    with open(path, "rb", opener=regular_only) as file:
        start = file.seek(0, os.SEEK_END)
        while start > 0 and data.count(b"\n") <= count:
            step = min(1 << 16, start)
            start -= step
            file.seek(start)
            data = file.read(step) + data
    return data.decode("utf-8", "replace").splitlines()[-count:]


def _followed_lines(path: Path, count: int) -> Iterator[str]:
    """Yield a file's last lines and then all new lines, by running `tail -F`."""
    import subprocess

    tail = ["tail", "-n", str(count), "-F", str(path)]
    with subprocess.Popen(
        tail, stdout=subprocess.PIPE, text=True, encoding="utf-8", errors="replace"
    ) as process:
        assert process.stdout is not None  # noqa: S101 -- stdout is a pipe
        try:
            for line in process.stdout:
                yield line.rstrip("\n")
        finally:
            process.terminate()


def _own_home() -> Home:
    """Return this machine's home. Raise an error if WINDLASS_SERVER is set."""
    from windlass.model.errors import InvalidArgument

    named = os.environ.get("WINDLASS_SERVER")
    if named:
        raise InvalidArgument(
            f"WINDLASS_SERVER names {named}; this command manages the server of this machine.",
            hint="Unset it first: unset WINDLASS_SERVER",
        )
    return Home.find()


def _wait_until_stopped(home: Home) -> int | None:
    """Stop a home's server and wait until it has ended.

    Return the server's process id, or None if no server was running.
    """
    from windlass.client.connection.discovery import describe_server
    from windlass.worker.common.process_identity import wait_for_end

    with _locked(home.start_lock, "A server is starting, but does not become ready."):
        pid, identity = _ask_to_stop(describe_server(home))
        # The lock is free once the server has stopped, even if no process is in the server file.
        with _locked(home.server_lock, _stuck(pid)):
            pass
        # The kernel releases the lock shortly before the process exits.
        if pid is not None:
            wait_for_end(pid, identity, _PATIENCE)
    return pid


def _ask_to_stop(described: dict[str, Any] | None) -> tuple[int | None, str]:
    """Send SIGTERM to the process described in a server file.

    Return the process id, and an identity that tells the process apart from a later process with
    the same id.
    """
    from windlass.worker.common.process_identity import is_alive

    pid, identity = (described or {}).get("pid"), str((described or {}).get("identity") or "")
    if not isinstance(pid, int) or not is_alive(pid, identity):
        return None, ""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    return pid, identity


@contextlib.contextmanager
def _locked(path: Path, excuse: str) -> Iterator[None]:
    """Hold a lock file during the `with` block. Raise an error if acquiring it takes too long."""
    from windlass.model.errors import ServerError
    from windlass.worker.common.atomic_files import set_irregular_aside
    from windlass.worker.common.lock_holder import describe_process, find_holder

    def give_up(*_: object) -> None:
        raise TimeoutError

    set_irregular_aside(str(path))
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_PATIENCE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except TimeoutError:
        os.close(fd)
        holder = describe_process(find_holder(path))
        hint = f"The lock {path} is held by {holder}.\nSee: windlass server logs"
        raise ServerError(excuse, hint=hint) from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    try:
        yield
    finally:
        os.close(fd)


def _stuck(pid: int | None) -> str:
    if pid is None:
        return "A server of this home directory runs, but its process id is unknown."
    return (
        f"The server (pid {pid}) did not stop within {_PATIENCE} seconds. "
        f"Kill it; trials keep running: kill -KILL {pid}"
    )


def _report() -> dict[str, Any]:
    """Return the status of the server in WINDLASS_SERVER, or else of this home's server."""
    from windlass.cli.options.server_probe import fetch_server_info, probe_server
    from windlass.cli.output.json import plain
    from windlass.client.connection.discovery import named_endpoint

    named = named_endpoint()
    if named is not None:
        info = plain(fetch_server_info(named))
        return {**info, "running": True, "answering": True, "url": named.url}
    seen = probe_server(Home.find())
    report = {**_described(seen), **(plain(seen.info) if seen.info else {})}
    return {
        "running": seen.is_running,
        "answering": seen.info is not None,
        "problem": seen.problem,
        **report,
        "home": str(seen.home.path),
    }


def _described(seen: ServerProbe) -> dict[str, Any]:
    described = (seen.described or {}) if seen.is_running else {}
    return {name: described.get(name) for name in ("pid", "url", "version", "started")}


def _print_status(report: dict[str, Any]) -> None:
    from windlass.cli.output.text import format_ago, format_moment, paint
    from windlass.model.text.quantities import format_size

    since = report.get("started")
    lines = {
        "server": paint("running", "green") if report["answering"] else paint("silent", "red"),
        "pid": str(report.get("pid")),
        "url": str(report.get("url")),
        "version": str(report.get("version")),
        "home": str(report.get("home")),
        **({"copy of": str(report["copy_of"])} if report.get("copy_of") else {}),
        "since": f"{format_moment(since)} ({format_ago(since, time.time())})" if since else "?",
    }
    if report["answering"]:
        capacity = report["capacity"]
        lines["trials"] = f"{report['trials_running']} running, {report['trials_queued']} queued"
        lines["machine"] = (
            f"{capacity['cpus']:g} CPUs ({report['cpus_free']:g} free), "
            f"{format_size(capacity['memory'])} of memory, "
            f"{len(capacity['devices'])} accelerators ({report['devices_free']} free)"
        )
    for label, value in lines.items():
        print(f"{paint(label.ljust(8), dim=True)} {value}")
