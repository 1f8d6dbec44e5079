"""The functions that agents run."""

from __future__ import annotations

import os
import pathlib
import signal
import sys
import time

import windlass as wl


def greet(name: str) -> str:
    print(f"hello {name}")
    return name.upper()


def measure(data: bytes, numbers: list[int]) -> tuple[int, int]:
    return len(data), sum(numbers)


def fail() -> None:
    raise ValueError("not today")


def learn(folder: str) -> float:
    latest = wl.latest_checkpoint()
    start = int((pathlib.Path(latest) / "step").read_text()) + 1 if latest else 0
    target = pathlib.Path("saved")
    target.mkdir(exist_ok=True)
    for step in range(start, start + 3):
        wl.report(step, loss=1 / (step + 1))
        (target / "step").write_text(str(step))
        for number in range(50):  # enough metrics that they are bundled
            (target / str(number)).write_text(f"{number} at {step if number < 5 else 0}")
        wl.save_checkpoint(target, step=step)
    (wl.output_dir() / "report.txt").write_text(f"from {start}")
    return start


def save_parts(steps: int) -> list[str]:
    rank, uids = wl.rank(), []
    for step in range(steps):
        pathlib.Path("part").mkdir(exist_ok=True)
        pathlib.Path("part", f"{rank}.bin").write_text(f"step {step} of {rank}")
        uids.append(str(wl.save_checkpoint("part", step=step, shard=True)))
    return uids


def wait_for(path: str) -> str:
    print("waiting")
    while not os.path.exists(path):
        time.sleep(0.01)
        if wl.should_stop():
            print("asked to stop")
            return "stopped"
    print("went on")
    return "done"


def wait_for_interrupt(path: str) -> str:
    try:
        print("waiting")
        while not os.path.exists(path):
            time.sleep(0.01)
    except KeyboardInterrupt:
        return "interrupted"
    return "done"


def chatter(count: int) -> int:
    for number in range(count):
        print("line", number, flush=True)
        wl.report(number, value=number)
    return count


def leave_a_note(folder: str) -> str:
    """Wait for SIGTERM, then write a note to the folder."""
    place = pathlib.Path(folder)
    if not (place / "pod").exists():
        return "at home"

    def leave(*_: object) -> None:
        (place / "note").write_text("there was time for a note")
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
    (place / "began").touch()
    while os.path.isdir(folder):
        time.sleep(0.01)
    return "nobody stopped it"


def save_without_notes(sign: str) -> None:
    if not os.path.exists(sign):
        return  # on the server's machine
    # The agent would record its uploads there, but cannot write to this path.
    pathlib.Path(os.environ["WINDLASS_CHECKPOINTS"], ".shipped").mkdir(parents=True, exist_ok=True)
    for step in range(3):
        pathlib.Path("model").write_text(f"step {step}")
        wl.save_checkpoint("model", step=step)


def save_odd_names(steps: list[int]) -> str:
    rank = wl.rank()
    folder = pathlib.Path("model")
    folder.mkdir(exist_ok=True)
    for step in steps:
        (folder / ("ab" * 32)).write_text("a file that is called like a blob")
        (folder / f"{rank}").write_text(str(step))
        if step == 1:
            (folder / "same").write_text(f"not the same: {rank}")
        else:
            (folder / "same").write_text("the same")
        wl.save_checkpoint(folder, step=step, shard=True)
    if steps and rank == 0:
        out = os.fsencode(wl.output_dir())
        for name in (b"odd\xff", b"odd\xfe", b"kept.txt"):
            pathlib.Path(os.fsdecode(os.path.join(out, name))).write_bytes(name)
    return "done"


def rewrite_outputs(sign: str) -> int:
    """Write a file repeatedly, shorter and longer, and remove it. Some version is uploaded."""
    if not os.path.exists(sign):
        return 0  # on the server's machine
    target, end = wl.output_dir() / "state.json", time.monotonic() + 3
    while time.monotonic() < end:
        for size in (3_000_000, 10):
            target.write_bytes(b"x" * size)
        target.unlink()
    target.write_bytes(b"last")
    return 7


def save_parts_and_wait(steps: int, go: str) -> list[str]:
    if os.path.exists(go):
        return []  # on the server's machine: an agent downloads the newest checkpoint

    rank, uids = wl.rank(), []
    folder = pathlib.Path("part")
    folder.mkdir(exist_ok=True)
    (folder / f"frozen-{rank}").write_bytes(bytes([rank + 65]) * 400_000)
    for step in range(steps):
        (folder / f"{rank}.bin").write_bytes(f"step {step} of {rank} ".encode() * 20_000)
        uids.append(str(wl.save_checkpoint(folder, step=step, shard=True)))
    print("all are saved")
    while not os.path.exists(go):
        time.sleep(0.01)
    return uids


def nothing() -> None:
    pass


def save_large(size: int, sign: str) -> str:
    """Save a large file in another folder, so that the store of the home does not contain it."""
    is_elsewhere = os.path.exists(sign)
    pathlib.Path("model").write_bytes(b"m" * (size if is_elsewhere else 10))
    wl.save_checkpoint("model", step=2 if is_elsewhere else 1)
    print("saved")
    return "done"


def answer(question: str) -> str:
    return f"the answer to {question}"


def look() -> str:
    import iniconfig

    assert iniconfig.__file__.startswith(sys.prefix)
    return sys.prefix


def save(sign: str) -> None:
    if os.path.exists(sign):
        pathlib.Path("model").write_text("what is saved in a pod")
        wl.save_checkpoint("model", step=7)


def write_files() -> None:
    """Write files as a program does that does not know Windlass."""
    for name in ("runs", ".cache", "../data"):
        os.makedirs(name, exist_ok=True)
    files = ("model.pt", "runs/events.out.tfevents.1", ".cache/x", "../data/x", "../results.csv")
    for name in files:
        with open(name, "w") as file:
            file.write("written")
