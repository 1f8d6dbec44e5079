"""Implements `windlass operator`, which runs the operator for TFJob and PyTorchJob objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.lazy_groups import Group
from windlass.cli.options.parameters import WholeNumber

if TYPE_CHECKING:
    import threading

    from windlass.model.errors import WindlassError

_WORKERS = 4
_LAST_PORT = 65535


@click.group(
    cls=Group,
    invoke_without_command=True,
    short_help="Run the operator for TFJob and PyTorchJob objects.",
    epilog=examples(
        "windlass operator install",
        "windlass operator --namespace lab --alone",
        "windlass operator rights --account ada | kubectl apply -f -",
    ),
)
@click.option(
    "-n", "--namespace", "namespaces", multiple=True, metavar="NAME",
    help="Manage the jobs of a namespace (all); repeatable.",
)  # fmt: skip
@click.option("--context", metavar="NAME", help="Context of the kubeconfig file.")
@click.option(
    "--listen", default="127.0.0.1:8080", show_default=True, metavar="HOST:PORT",
    help="Address of /healthz, /readyz and /metrics.",
)  # fmt: skip
@click.option(
    "--lease-namespace", metavar="NAME",
    help="Namespace of the leader lease (that of the account).",
)  # fmt: skip
@click.option("--alone", is_flag=True, help="Run without leader election.")
@click.option(
    "--workers", type=WholeNumber(1), default=_WORKERS, show_default=True, metavar="N",
    help="Jobs to reconcile in parallel.",
)  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    namespaces: tuple[str, ...],
    context: str | None,
    listen: str,
    lease_namespace: str | None,
    alone: bool,
    workers: int,
) -> None:
    """Run the operator for TFJob and PyTorchJob objects (kubeflow.org/v1).

    Several operators elect a leader. If the leader fails, another operator takes over within 15
    seconds.
    """
    if ctx.invoked_subcommand is None:
        _run(namespaces, context, listen, lease_namespace, alone, workers)


@command.command(
    short_help="Install the custom resource definitions.",
    epilog=examples(
        "windlass operator install",
        "windlass operator install --print | kubectl apply -f -",
    ),
)
@click.option("--print", "is_print", is_flag=True, help="Print the definitions for kubectl apply.")
@click.option("--replace", is_flag=True, help="Replace the definitions of another operator.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig file.")
def install(is_print: bool, replace: bool, context: str | None) -> None:
    """Install the definitions of TFJob and PyTorchJob in the cluster.

    Definitions installed by another operator are kept, because the Windlass operator works with
    them, too.
    """
    from windlass.operator.install_crds import definition_texts
    from windlass.operator.install_crds import install as install_definitions

    if is_print:
        print("---\n".join(definition_texts()), end="")
        return
    from windlass.kube.api.connection import connect

    for definition in install_definitions(connect(context), replace=replace):
        is_kept = definition.what == "kept"
        words = "unchanged: it belongs to another operator" if is_kept else definition.what
        print(f"{definition.name}: {words}")


@command.command(
    short_help="Print the roles that the operator needs.",
    epilog=examples(
        "windlass operator rights --account ada | kubectl apply -f -",
    ),
)
@click.option(
    "-n", "--namespace", "namespaces", multiple=True, metavar="NAME",
    help="Namespace of the jobs (all); repeatable.",
)  # fmt: skip
@click.option("--lease-namespace", metavar="NAME", help="Namespace of the leader lease.")
@click.option("--alone", is_flag=True, help="Without permissions for leader election.")
@click.option("--account", metavar="NAME", help="Account of the roles (the current one).")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig file.")
def rights(
    namespaces: tuple[str, ...],
    lease_namespace: str | None,
    alone: bool,
    account: str | None,
    context: str | None,
) -> None:
    """Print roles with all permissions that the operator needs, and their bindings to an account.

    Let an administrator apply the output with kubectl.
    """
    from windlass.kube.api.connection import connect
    from windlass.kube.api.yaml import as_yaml
    from windlass.kube.permissions.check import account_name
    from windlass.operator.permissions import grants

    if not account or not (alone or lease_namespace):
        connection = connect(context)
        account = account or account_name(connection)
        lease_namespace = lease_namespace or connection.namespace
    print(as_yaml(grants(account, namespaces, "" if alone else lease_namespace or "")), end="")


def _run(
    namespaces: tuple[str, ...],
    context: str | None,
    listen: str,
    lease_namespace: str | None,
    alone: bool,
    workers: int,
) -> None:
    import faulthandler
    import logging
    import os
    import socket
    import sys
    import uuid

    from windlass.kube.api.connection import connect
    from windlass.operator.leader_election import lease_name
    from windlass.operator.namespaces import missing_namespaces
    from windlass.operator.operator import Operator
    from windlass.operator.permissions import check_permissions, missing_help

    faulthandler.enable()  # print all stacks after a crash
    logging.basicConfig(
        level=os.environ.get("WINDLASS_LOG_LEVEL", "INFO").upper(), stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )  # fmt: skip
    # The Kubernetes client logs every connection that its pool drops, although this is normal.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    # Every watch logs the same failure, so only `_print_failure` reports it, once.
    watching = logging.getLogger("windlass.kube.api.watch")
    watching.addFilter(lambda record: record.levelno != logging.WARNING)
    host, port = _parse(listen)
    connection = connect(context)
    leases = "" if alone else (lease_namespace or connection.namespace)
    check_permissions(connection, namespaces, leases)
    stop = _stop_event()
    try:
        operator = Operator(
            connection, namespaces,
            identity=f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}",
            lease_namespace=leases, host=host, port=port, workers=workers,
            on_trouble=_print_failure,
        )  # fmt: skip
    except OSError as error:
        raise _cannot_listen(listen, error) from None
    where = f"namespace {', '.join(namespaces)}" if namespaces else "all namespaces"
    print(f"Managing the jobs of {where} at {connection.server}.", flush=True)
    if leases:
        others = "any of these namespaces" if namespaces else "any namespace"
        print(
            f"It is active while it holds the lease {lease_name(namespaces)} in namespace "
            f"{leases}; "
            "other operators for the same jobs stand by. No other operator should manage "
            f"{others}.",
            flush=True,
        )
    for permission in missing_help(connection, namespaces):
        print(
            f"The operator may not {permission}, and continues without. "
            "See: windlass operator rights",
            flush=True,
        )
    for name in missing_namespaces(connection, namespaces):
        print(
            f"There is no namespace {name} yet. The operator watches it for jobs anyway.",
            flush=True,
        )
    name = f"[{host}]" if ":" in host else host
    print(f"Health and metrics: http://{name}:{operator.port}", flush=True)
    operator.run(stop)
    print("Stopped. Pods keep running.", flush=True)


def _stop_event() -> threading.Event:
    """Return an event that is set on SIGTERM or SIGINT.

    The signal wakes up a thread through a pipe, and this thread sets the event. A Python signal
    handler would only run in the main thread, and not while that thread waits for a lock.
    """
    import os
    import signal
    import threading

    stop = threading.Event()
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def set_stop() -> None:
        os.read(read_end, 1)
        stop.set()

    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # the default action would end the process
    threading.Thread(target=set_stop, name="stop-on-signal", daemon=True).start()
    return stop


def _cannot_listen(listen: str, error: OSError) -> WindlassError:
    from windlass.model.errors import WindlassError

    return WindlassError(
        f"The operator cannot listen at {listen}: {error.strerror or error}.",
        hint="Choose another address: --listen 127.0.0.1:8081, or port 0 for any free port.",
    )


def _parse(listen: str) -> tuple[str, int]:
    from windlass.model.errors import InvalidArgument

    host, _, port = listen.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not host or not port.isdigit() or int(port) > _LAST_PORT:
        raise InvalidArgument(
            f"--listen is {listen!r}; it must be HOST:PORT.", hint="For example: 0.0.0.0:8080"
        )
    return host, int(port)


def _print_failure(error: WindlassError) -> None:
    from windlass.cli.output.text import print_error

    print_error(str(error))
