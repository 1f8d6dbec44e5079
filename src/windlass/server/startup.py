"""Start and shutdown of the server: lock, token, stores, controller and socket."""

from __future__ import annotations

import asyncio
import faulthandler
import fcntl
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import cast

import uvicorn

from windlass.controller.admission import AdmissionQueue
from windlass.controller.controller import Controller
from windlass.home import Home
from windlass.machine.capacity import read_capacity
from windlass.model.copied_home import describe_copy
from windlass.model.errors import ServerError
from windlass.model.records import TrialRecord
from windlass.model.versions import API_LEVEL
from windlass.runtimes.base import ServerContext
from windlass.runtimes.by_backend import REMOTE_BACKENDS, Runtimes
from windlass.runtimes.local.installation import describe_installation, has_code
from windlass.runtimes.local.own_socket import OwnSocket
from windlass.runtimes.local.runtime import LocalRuntime
from windlass.runtimes.local.warm_launchers import Launchers
from windlass.server.app import create_app
from windlass.server.db.base import Database
from windlass.server.db.sqlite import SqliteDatabase
from windlass.server.idle_exit import exit_when_idle, read_limit, start_successor
from windlass.server.log_file import open_log
from windlass.server.operations.controller_store import ControllerStore
from windlass.server.operations.dependents import Dependents
from windlass.server.operations.experiment_leases import ExperimentLeases
from windlass.server.operations.shared_log_pages import SharedLogPages
from windlass.server.operations.stop import tell_to_stop
from windlass.server.operations.trial_waits import TrialWaits
from windlass.server.services import Services
from windlass.server.space_reserve import SpaceReserve
from windlass.server.stores.artifacts import ArtifactStore
from windlass.server.stores.blobs.files import FileBlobStore
from windlass.server.stores.blobs.garbage import Garbage
from windlass.server.stores.blobs.unwritten import UnwrittenBlobs
from windlass.server.stores.checkpoints.store import CheckpointReader, CheckpointStore
from windlass.server.stores.experiments import ExperimentStore
from windlass.server.stores.home_identity import HomeIdentity, identify, own_token
from windlass.server.stores.logs.files import FileLogStore
from windlass.server.stores.metrics.files import FileMetricStore
from windlass.server.stores.metrics.reader import MetricReader
from windlass.server.stores.models import ModelStore
from windlass.server.stores.private_files import PrivateFiles
from windlass.server.stores.templates import TemplateStore
from windlass.server.stores.trials.relations import TrialRelations
from windlass.server.stores.trials.store import TrialStore
from windlass.server.stores.workspaces import WorkspaceStore
from windlass.server.web.agent_token import agent_token
from windlass.server.web.error_responses import to_fault
from windlass.server.web.http_protocol import Connection
from windlass.server.web.listen_address import BACKLOG, read_listening
from windlass.server.web.notifications import QUEUE, Hub, experiment_topic
from windlass.server.web.open_connections import OpenConnections
from windlass.version import __version__
from windlass.worker.common.atomic_files import set_irregular_aside, write_json
from windlass.worker.common.file_reads import exists, read_json, retried
from windlass.worker.common.lock_holder import describe_process, find_holder
from windlass.worker.common.process_identity import process_identity

_LOCK_PATIENCE = 15
_LINKED_LOCK_PATIENCE = 2  # another home's server probably holds the lock and will not exit
_START_PATIENCE = 5.0
_HOME_CHECK = 5.0
_INSTALL = 3.0  # seconds that reinstalling the package may take
_OPEN_FILES = 16_384
_log = logging.getLogger("windlass")


def serve_home(path: str, ready_fd: int, launchers: Launchers) -> int:
    """Run a home's server until a signal stops it. Write "ready" or an error to `ready_fd`."""
    os.umask(0o077)
    # Threads switch more often than by default (every 5 ms), so that a thread that reconciles a job
    # does not delay a response.
    sys.setswitchinterval(0.0005)
    ready = _Ready(ready_fd)
    try:
        home = Home(Path(path)).make()
        os.chmod(home.path, 0o700)
        for file in (home.server_log, home.server_lock, home.server_file):
            set_irregular_aside(str(file))
        open_log(home.server_log)
    except (OSError, ServerError) as error:
        ready.say(str(error))
        return 1
    faulthandler.enable()  # writes a stack trace on a crash
    most_files = _allow_many_files()
    try:
        lock = _lock(home)
        if lock is None:
            ready.say(_describe_lock(home))
            return 1
        SpaceReserve(home.path).release_if_full()
        asyncio.run(_serve(home, ready, lock, launchers, OpenConnections(most_files)))
    except Exception as error:  # noqa: BLE001 -- the process that reads `ready_fd` gets the error
        _log.exception("the server ends")
        fault = to_fault(error, home.path)
        is_explained = fault.code != "server"
        message = f"{fault.message} {fault.hint}"
        ready.say(message if is_explained else f"{type(error).__name__}: {error}")
        return 1
    return 0


class _Ready:
    """A pipe that carries a single message to the process that started the server."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        os.set_inheritable(fd, False)

    def say(self, text: str) -> None:
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        try:
            os.write(fd, text.encode())
        except BrokenPipeError:
            pass  # the process that started the server has exited, but other clients may come
        os.close(fd)


class _Server(uvicorn.Server):
    """A uvicorn server that ends all streams when it shuts down."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            # uvicorn uses one `backlog` setting for two limits: how many connections wait in the
            # kernel, and how many the event loop accepts at once. Only the second limit should be
            # low.
            listener.listen(BACKLOG)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 -- uvicorn's
        # Do not call uvicorn's own method, because it raises the signal again before the code after
        # `serve` has cleaned up.
        self._hub.close()
        self.should_exit = True


async def _serve(
    home: Home, ready: _Ready, lock: int, launchers: Launchers, open_connections: OpenConnections
) -> None:
    asyncio.get_running_loop().set_exception_handler(open_connections.handle_loop_error)
    identity = retried(partial(identify, home), _START_PATIENCE)
    listening = read_listening()
    listener = listening.open()
    own_socket = OwnSocket(home.path, "server.sock", socket.SOCK_STREAM)
    database = SqliteDatabase(home.database)
    hub = Hub(asyncio.get_running_loop())
    families = Dependents(asyncio.get_running_loop())
    idle_limit = read_limit()
    services = _assemble(home, identity, database, hub, families, launchers)
    port = listener.getsockname()[1]
    services.url = listening.own_url(port)
    services.urls = listening.urls(port)
    app = create_app(services, own_token(home), listening.hosts)
    config = uvicorn.Config(
        app,
        http=_protocol(open_connections),
        backlog=open_connections.accepted_at_once,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # clients connect directly
        timeout_keep_alive=120,
        timeout_graceful_shutdown=5,
        server_header=False,
    )
    server = _Server(config, hub)
    if identity.is_copy:
        _log.warning("%s", " ".join(describe_copy(str(home.path), identity.original or "")))
    else:
        services.controller.start()
    _announce(home, services, own_socket)
    _log.info("serving %s at %s, version %s", home.path, services.url, __version__)
    ready.say("ready")
    # Announce the socket for notifications from trials before reading pending reports, so that no
    # report is lost in between.
    catching_up = asyncio.create_task(asyncio.to_thread(_catch_up, home, services))
    watching = [asyncio.create_task(_leave_when_homeless(server, home, services, own_socket, lock))]
    has_been_idle = False

    def leave() -> None:
        nonlocal has_been_idle
        has_been_idle = True
        _log.info("nobody has needed this server for %g seconds: exiting", idle_limit)
        server.handle_exit(signal.SIGTERM, None)

    if idle_limit is not None:
        idling = exit_when_idle(services, open_connections, idle_limit, leave)
        watching.append(asyncio.create_task(idling))
    if not identity.is_copy:
        watching.append(asyncio.create_task(families.look_after(services)))
    try:
        await server.serve(sockets=[listener, own_socket.socket])
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        home.server_file.unlink(missing_ok=True)
        own_socket.close()
        await asyncio.gather(catching_up, return_exceptions=True)
        await asyncio.to_thread(services.controller.stop)
        services.runtime.close()
        services.metric_reader.close()
        services.checkpoint_reader.close()
        await asyncio.to_thread(services.unwritten.close)
        needs_successor = has_been_idle and services.has_work()
        database.close()
        if needs_successor:
            start_successor()
        _log.info("stopped; running trials continue")


def _protocol(open_connections: OpenConnections) -> type[asyncio.Protocol]:
    # A function is enough, because uvicorn only calls the class.
    return cast("type[asyncio.Protocol]", partial(Connection, open_connections=open_connections))


async def _leave_when_homeless(
    server: _Server, home: Home, services: Services, own_socket: OwnSocket, lock: int
) -> None:
    """Shut down when the home directory is deleted or replaced, and restore a lost server file.

    Also shut down if the socket is gone, because clients cannot find this server and the next
    client starts a new one.
    """
    while _is_held(home, lock, own_socket.path):
        try:
            announced = read_json(str(home.server_file))
            if announced is None or announced.get("pid") != os.getpid():
                _announce(home, services, own_socket)
        except OSError as error:
            _log.warning("the server file cannot be checked: %s", error)
        await asyncio.sleep(_HOME_CHECK)
        await asyncio.to_thread(services.reserve.refill)
        if not has_code() and not await _returns():
            _log.warning(
                "%s: exiting, so that the next client starts another server",
                describe_installation(),
            )
            server.handle_exit(signal.SIGTERM, None)
            return
    _log.warning("the home directory or its socket is gone, or has another server: exiting")
    server.handle_exit(signal.SIGTERM, None)


async def _returns() -> bool:
    """Return whether this server's code reappears soon, as it does during a reinstallation."""
    await asyncio.sleep(_INSTALL)
    return has_code()


def _is_held(home: Home, lock: int, own_socket: str) -> bool:
    """Return whether the home still contains the socket and the locked file of this server."""
    try:
        is_own = os.path.samestat(os.stat(home.server_lock), os.fstat(lock))
        return is_own and exists(own_socket)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        _log.warning("the lock of the home cannot be checked: %s", error)
        return True


def _assemble(
    home: Home,
    identity: HomeIdentity,
    database: Database,
    hub: Hub,
    families: Dependents,
    launchers: Launchers,
) -> Services:
    def changed(trial: TrialRecord) -> None:
        hub.publish(experiment_topic(trial.experiment_id), trial.id)
        families.changed(trial)
        services.note_activity()

    trials = TrialStore(database, on_change=changed)
    leases = ExperimentLeases(asyncio.get_running_loop())
    leases.on_change = lambda experiment_id: hub.publish(experiment_topic(experiment_id))
    leases.on_let_go = families.let_go
    blobs = FileBlobStore(home.blobs)
    private = PrivateFiles(home.private)
    if not identity.is_copy:
        blobs.sweep()
        private.sweep(set(trials.unfinished()))
    unwritten = UnwrittenBlobs(database, blobs)
    capacity = read_capacity()
    token = own_token(home)

    local = LocalRuntime(
        home.path,
        identity.id,
        has_devices=bool(capacity.devices),
        launchers=launchers,
        write_blob=blobs.write_out,
    )
    context = ServerContext(
        home=home,
        token_for=lambda uid: agent_token(token, uid),
        url=lambda: services.url,
        urls=lambda: services.urls,
    )
    # A copied home gets no remote runtimes, because the pods belong to the original home.
    runtime = Runtimes(local, context, {} if identity.is_copy else REMOTE_BACKENDS)
    runtime.watch_trials(hub.publish)
    if not identity.is_copy:
        runtime.adopt(trials.unfinished_jobs())
    admission = AdmissionQueue(capacity)
    metrics = FileMetricStore(home.path, database, trials.note, _publish_points(hub))
    reader = MetricReader(metrics)
    local.nudges.on_metrics(reader.read_soon)
    checkpoints = CheckpointStore(home.path, database, blobs, metrics, trials.keeping)
    checkpoint_reader = CheckpointReader(checkpoints)
    local.nudges.on_checkpoint(lambda source: checkpoint_reader.read_soon(source.trial_id))
    logs = FileLogStore(home.path)
    recorder = ControllerStore(
        home, trials, blobs, logs, private, metrics, checkpoints, hub.publish
    )
    controller = Controller(
        recorder, runtime, admission=admission, on_queue_moved=lambda: hub.publish(QUEUE)
    )
    services = Services(
        home=home,
        identity=identity,
        database=database,
        trials=trials,
        relations=TrialRelations(database),
        experiments=ExperimentStore(
            database, leases.is_held, leases.held_ids, on_rename=trials.forget
        ),
        workspaces=WorkspaceStore(database, on_rename=trials.forget),
        models=ModelStore(database),
        templates=TemplateStore(database),
        blobs=blobs,
        unwritten=unwritten,
        garbage=Garbage(home.path / "trials", blobs, database),
        logs=logs,
        log_pages=SharedLogPages(logs),
        outputs=ArtifactStore(home.path),
        metrics=metrics,
        metric_reader=reader,
        checkpoints=checkpoints,
        checkpoint_reader=checkpoint_reader,
        private=private,
        reserve=SpaceReserve(home.path),
        hub=hub,
        leases=leases,
        runtime=runtime,
        nudge_path=local.nudges.path,
        admission=admission,
        waits=TrialWaits(admission, hub.publish),
        controller=controller,
        capacity=capacity,
        started=time.time(),
    )
    return services


def _publish_points(hub: Hub) -> Callable[[int, int], None]:
    """Return a function that notifies the streams of a trial and of the trial's experiment."""

    def publish(trial_id: int, experiment_id: int) -> None:
        hub.publish(trial_id)
        hub.publish(experiment_topic(experiment_id), trial_id)

    return publish


def _catch_up(home: Home, services: Services) -> None:
    """Finish a killed server's work: read pending reports and write pending stop requests."""
    if services.identity.is_copy:
        return
    try:
        for trial_id, reason in services.trials.asked_to_stop().items():
            tell_to_stop(home.path, trial_id, reason)
        unfinished = services.trials.unfinished_jobs()
        services.metric_reader.catch_up(home.path, unfinished)
        services.checkpoint_reader.catch_up(job.trial_id for job in unfinished)
    except Exception:  # noqa: BLE001 -- the server can run without this step
        _log.exception("unfinished work of an earlier server is left as it is")


def _announce(home: Home, services: Services, own_socket: OwnSocket) -> None:
    pid, directory = os.getpid(), os.stat(home.path)
    write_json(
        str(home.server_file),
        {
            "pid": pid,
            "identity": process_identity(pid),
            "url": services.url,
            "socket": os.path.relpath(own_socket.path, home.path)
            if home.path in Path(own_socket.path).parents
            else own_socket.path,
            "home": str(home.path),
            "directory": [directory.st_dev, directory.st_ino],
            "copy_of": services.identity.original,
            "version": __version__,
            "api_level": API_LEVEL,
            "started": services.started,
            "nudge": services.nudge_path,
        },
    )


def _describe_lock(home: Home) -> str:
    """Return an error message that names the process that holds the home's lock."""
    holder = describe_process(find_holder(home.server_lock))
    if _is_hard_link(home.server_lock):
        return (
            f"The files of {home.path} are hard links to the files of another home, which {holder} "
            "uses. Make a copy without hard links: cp -a HOME COPY"
        )
    return f"Another server uses this home directory and does not stop: {holder}."


def _is_hard_link(path: Path) -> bool:
    return os.stat(path).st_nlink > 1


def _lock(home: Home) -> int | None:
    """Lock the home, waiting for an old server to exit. Return None if it does not exit in time."""
    fd = os.open(home.server_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_LINKED_LOCK_PATIENCE if _is_hard_link(home.server_lock) else _LOCK_PATIENCE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except TimeoutError:
        os.close(fd)
        return None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return fd


def _allow_many_files() -> int:
    """Raise the open-file limit, which the client's process may have set low.

    Return the new limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(soft, wanted)
