"""The cluster from the command line: `PYTHONPATH=tests python -m on_kubernetes.cluster up`."""

from __future__ import annotations

import argparse
import signal
import sys

from on_kubernetes.cluster.commands import ClusterError
from on_kubernetes.cluster.locations import KUBECONFIG
from on_kubernetes.cluster.parts import part_named, parts
from on_kubernetes.cluster.start import is_up, up
from on_kubernetes.cluster.stop import down
from on_kubernetes.cluster.wait import NeverHappenedError


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m on_kubernetes.cluster", description=__doc__)
    commands = arguments.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="build it if need be, and start it")
    commands.add_parser("down", help="stop it, and leave nothing behind")
    commands.add_parser("status", help="what of it runs")
    for name, what in {"start": "start one part", "stop": "stop one", "kill": "kill one"}.items():
        single = commands.add_parser(name, help=what)
        single.add_argument("part", choices=[part.name for part in parts()])
    options = arguments.parse_args()
    try:
        return _do(options.command, getattr(options, "part", ""))
    except (ClusterError, NeverHappenedError) as error:
        print(error, file=sys.stderr)
        return 1


def _do(command: str, part: str) -> int:
    match command:
        case "up":
            up()
        case "down":
            down()
        case "status":
            return _tell_status()
        case "start":
            part_named(part).start()
            part_named(part).wait()
        case "stop":
            part_named(part).stop()
        case "kill":
            part_named(part).stop(signal.SIGKILL)
    return 0


def _tell_status() -> int:
    for part in parts():
        print(f"{part.name:<20} {part.pid or 'stopped'}")
    print(f"\n{KUBECONFIG}" if is_up() else "\nNot up: `make kube` starts it.")
    return 0 if is_up() else 3


if __name__ == "__main__":
    sys.exit(main())
