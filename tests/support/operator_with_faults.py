"""A real operator with injected faults: it dies at a chosen step, loses a worker, or counts.

`python operator_with_faults.py operator --namespace lab` is the command `windlass`, with the rig
that WINDLASS_RIG names:

- `die:N` sends itself SIGKILL at the N-th step: just before and just after each write to the
  cluster, except for events and its lease
- `lose-worker` ends the worker that first reconciles a job, which must never happen by itself
- `count:FILE` appends to a file the uid of each job that two workers reconcile at the same time
- `hold:METHOD:KIND:FOLDER` writes `held` to a folder before the first such request and waits for
  `go`; it writes `done` after the response, unless the cluster refuses the request
- `note:FILE` appends to a file each request to the cluster, spelled like a permission
"""

from __future__ import annotations

import os
import sys

from server_with_faults import RIG, count_overlaps, die_in_cluster, hold, note_deeds


def _lose_worker() -> None:
    from windlass.controller.controller import Controller

    def reconcile(self: Controller, uid: str) -> bool:
        raise SystemExit(f"looking at {uid}")

    Controller.reconcile = reconcile  # type: ignore[method-assign]


def _main() -> None:
    kind, _, what = os.environ.pop(RIG).partition(":")
    {
        "die": lambda: die_in_cluster(int(what), "/events", "/leases", "/selfsubject"),
        "lose-worker": _lose_worker,
        "count": lambda: count_overlaps(what),
        "hold": lambda: hold(*what.rsplit(":", 1)),
        "note": lambda: note_deeds(what),
    }[kind]()
    from windlass.cli.main import main

    sys.argv[0] = "windlass"
    main()


if __name__ == "__main__":
    sys.exit(_main())
