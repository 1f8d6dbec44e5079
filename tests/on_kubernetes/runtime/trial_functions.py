"""Functions of trials in tests, which need only Python."""

from __future__ import annotations

import windlass as wl


def double(number: int) -> int:
    print(f"doubling {number}")
    return number * 2


def refuse(reason: str) -> None:
    raise ValueError(reason)


def learn(steps: int) -> float:
    for step in range(steps):
        wl.report(step, loss=1 / (step + 1))
        wl.report_progress((step + 1) / steps)
    (wl.output_dir() / "notes.txt").write_text("kept")
    return 1 / steps


def go_on(until: int) -> int:
    import os
    import pathlib

    latest = wl.latest_checkpoint()
    begun = int(pathlib.Path(latest, "step").read_text()) + 1 if latest else 0
    print(f"from {begun}")
    for step in range(begun, until):
        pathlib.Path("state").mkdir(exist_ok=True)
        pathlib.Path("state/step").write_text(str(step))
        wl.save_checkpoint("state", step=step)
        if step == 1 and not latest:
            os._exit(137)  # as if it had been killed
    return begun


def linger() -> None:
    import time

    print("lingering", flush=True)
    time.sleep(600)


def leave_with(code: int) -> None:
    import sys

    print(f"leaving with {code}", flush=True)
    sys.exit(code)


def whoami() -> tuple[int, int, int, str]:
    trial = wl.current_trial()
    assert trial is not None
    return wl.rank(), wl.world_size(), trial.id, f"{trial.name} {trial.role}-{trial.index}"


def persist() -> int:
    """Count, report and notify until released; see `on_kubernetes.gates`.

    Returns the last count.
    """
    import os
    import pathlib
    import secrets
    import time

    gate = pathlib.Path("/gate")
    rank, attempt = wl.rank(), os.environ["WINDLASS_ATTEMPT"]
    which = f"{rank}-{attempt}"
    (gate / f"began-{which}.{secrets.token_hex(4)}").touch()  # one for each start
    step = 0
    while not (gate / f"go-{rank}").exists():
        print(f"step {step}", flush=True)
        wl.report(step, **{f"count_{which}": step})
        step += 1
        (gate / f".{which}").write_text(str(step))
        (gate / f".{which}").rename(gate / f"steps-{which}")
        if (gate / f"die-{which}").exists():
            (gate / f"died-{which}").touch()
            os._exit(137)
        time.sleep(0.1)
    (gate / f"done-{which}").touch()
    return step


def leave_in_order(code: int) -> int:
    """Count to 4 with a checkpoint each. On SIGTERM, save another and exit with a code."""
    import os
    import pathlib
    import signal
    import sys
    import time

    latest = wl.latest_checkpoint()
    begun = int(pathlib.Path(latest, "step").read_text()) + 1 if latest else 0
    print(f"from {begun}", flush=True)

    def save(step: int) -> None:
        pathlib.Path("state").mkdir(exist_ok=True)
        pathlib.Path("state/step").write_text(str(step))
        wl.save_checkpoint("state", step=step)
        wl.report(step, loss=1 / (step + 1))

    def leave(*_: object) -> None:
        save(2)
        print("taken away", flush=True)
        sys.exit(code)

    signal.signal(signal.SIGTERM, leave)
    for step in range(begun, 4):
        if step == 2 and os.environ["WINDLASS_ATTEMPT"] == "1":
            print("waiting", flush=True)
            time.sleep(600)
        save(step)
    return begun


def look_at_iniconfig() -> tuple[str, str]:
    from importlib import metadata

    import iniconfig

    return metadata.version("iniconfig"), iniconfig.__file__


def confide() -> tuple[int, str]:
    """Print its secret in every way, then run until it is asked to stop."""
    import os
    import sys
    import time

    token = os.environ["TOKEN"]
    print("the token is", token)
    print("halves:", token[:9], end="", flush=True)
    print(token[9:], flush=True)
    print("to stderr", token, file=sys.stderr, flush=True)
    while not wl.should_stop():
        time.sleep(0.05)
    return len(token), os.environ["MOOD"]


def ask_for_more() -> list[str]:
    """Call, submit and look up trials inside a trial, and return the results."""
    job = wl.Job(wl.Command(["true"]))
    values = [str(wl.run(cpus=0.1)(double)(4))]
    for ask in (
        wl.run(cpus=0.1)(double).submit,
        lambda _: job.submit(),
        lambda _: wl.list_trials(),
    ):
        try:
            values.append(f"{ask(4)}")
        except wl.WindlassError as error:
            values.append(f"{type(error).__name__}: {error}")
    return values


def save_in_parts(steps: int) -> list[str]:
    """Save a part of every step in each rank. Return the checkpoint that the rank resumed from."""
    import pathlib

    rank, checkpoint = wl.rank(), wl.latest_checkpoint()
    if checkpoint is not None:
        return sorted(path.read_text() for path in pathlib.Path(checkpoint).iterdir())
    part = pathlib.Path("part")
    part.mkdir()
    for step in range(steps):
        (part / f"shard-{rank}").write_text(f"{rank} at {step}")
        wl.save_checkpoint(part, step=step, shard=True)
    (wl.output_dir() / "notes.txt").write_text(f"notes of {rank}")
    (wl.tensorboard_dir() / "events.out.tfevents.1").write_text(f"events of {rank}")
    return []


def fall_off(x: int) -> None:
    wl.report(0, loss=(x - 2) ** 2)
