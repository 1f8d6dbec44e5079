"""A real operator with a rig: it dies at a chosen step, loses a worker, or keeps count.

`python operator_with_faults.py operator --namespace lab` is the command `windlass`, with the rig
that WINDLASS_RIG names:

- `die:N` sends itself SIGKILL at the N-th step: just before and just after everything that it
  writes to the cluster, but for events and its lease
- `lose-worker` has the worker that first looks at a job end, as nothing should have it do
- `count:FILE` appends to a file the uid of each job that is looked at by two at a time
- `hold:METHOD:KIND:FOLDER` leaves `held` in a folder before the first of such requests, and waits
  for `go`; `done` is left when it was answered, unless with a refusal
- `note:FILE` appends to a file what it asks of the cluster, as rights are spelt
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
