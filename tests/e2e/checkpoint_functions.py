"""Functions that save checkpoints. Quick to import: every trial imports this module."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Any

import windlass as wl


@wl.run(cpus=0.1)
def train(losses: list[float], name: str = "model", **noted: Any) -> str:
    """Save a folder at each step, after reporting its loss."""
    folder = Path(name)
    folder.mkdir(exist_ok=True)
    checkpoint = wl.latest_checkpoint()
    began = "" if checkpoint is None else (Path(checkpoint) / "weights").read_text()
    for step, loss in enumerate(losses):
        (folder / "weights").write_text(f"{began}{loss} ")
        (folder / "vocabulary").write_text("the same " * 1000)
        wl.report(step, loss=loss)
        wl.save_checkpoint(folder, step=step, metadata={"loss": loss, **noted})
    return began


@wl.run(cpus=0.1)
def refused() -> list[str]:
    """Save invalid checkpoints, and return the errors of Windlass."""
    folder = Path("model")
    folder.mkdir()
    (folder / "weights").write_text("1")
    wrong: list[tuple[Any, dict[str, Any]]] = [
        ("nowhere", {}),
        (7, {}),
        (folder, {"step": -1}),
        (folder, {"step": "first"}),
        (folder, {"metadata": {"model": object()}}),
        (folder, {"metadata": {"x" * 10_000: 1}}),
        (folder, {"shard": True}),
    ]
    messages = []
    for path, options in wrong:
        try:
            wl.save_checkpoint(path, **options)
        except wl.WindlassError as error:
            messages.append(f"{type(error).__name__}: {error}")
    return messages


@wl.run(cpus=0.1)
def save_crowd(texts: list[str]) -> None:
    """Save many small files, most of which stay unchanged."""
    folder = Path("model")
    folder.mkdir()
    for text in texts:
        for number in range(100):
            name = text if number < 10 else "unchanged"
            (folder / str(number)).write_text(f"{name} {number} ".ljust(2000))
        wl.save_checkpoint(folder)


@wl.run(cpus=0.1)
def validate(
    reports: dict[str, float], count: int = 4, first: int = 0, group: str = "training"
) -> None:
    """Save at each step from 0 on, and report the same value from some step on."""
    Path("state").write_text("1")
    for step in range(count):
        if step >= first:
            wl.report(step, group=group, **{name: step * by for name, by in reports.items()})
        wl.save_checkpoint("state", step=step)


@wl.run(cpus=0.1)
def save_two_sizes(data: bytes, has_blake3: bool) -> str | None:
    """Save a large file, and a small one that extends the small file of the last checkpoint."""
    if not has_blake3:
        sys.modules["blake3"] = None  # type: ignore[assignment]  # importing it fails
    checkpoint = wl.latest_checkpoint()
    began = (Path(checkpoint) / "small").read_bytes() if checkpoint else b""
    Path("model").mkdir(exist_ok=True)
    Path("model", "large").write_bytes(data * 9)
    Path("model", "small").write_bytes(began + data[:10])
    return wl.save_checkpoint("model", step=1)


@wl.run(cpus=0.5)
def save_unique(count: int, register: str = "") -> list[str | None]:
    """Save some checkpoints, and register the last if a model is named."""
    saved = []
    for step in range(1, count + 1):
        Path("model.txt").write_text(f"weights of step {step}, {uuid.uuid4()}\n")
        saved.append(wl.save_checkpoint("model.txt", step=step))
    if register:
        wl.get_model(register).register_version(saved[-1] or "", labels=["by itself"])
    return saved
