"""A Jupyter kernel that runs cells for tests."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from harness import eventually

PATIENCE = 60  # seconds for one cell


class Kernel:
    """A kernel and the notebook whose cells it has run."""

    def __init__(self, client: NotebookClient) -> None:
        self._client = client

    def run(self, source: str, *, may_fail: bool = False) -> list[Any]:
        """Run a cell and return its outputs as a saved notebook contains them."""
        tags = ["raises-exception"] if may_fail else []
        cell = nbformat.v4.new_code_cell(source, metadata={"tags": tags})
        cells = self._client.nb.cells
        cells.append(cell)
        self._client.execute_cell(cell, len(cells) - 1)
        return list(cell.outputs)

    def when_shown(self, text: str, then: Callable[[], object]) -> None:
        """Call a function in a thread once the output of the next cell contains a text."""
        count = len(self._client.nb.cells)

        def is_shown() -> bool:
            outputs = [cell.outputs for cell in self._client.nb.cells[count:]]
            return text in json.dumps(outputs)

        def watch() -> None:
            eventually(is_shown, f"the cell shows {text!r}")
            then()

        threading.Thread(target=watch, daemon=True).start()

    def interrupt(self) -> None:
        """Interrupt the cell that runs, as the stop button of a notebook does."""
        os.kill(self.pid, signal.SIGINT)

    @property
    def pid(self) -> int:
        """The process id of the kernel."""
        return int(self._client.km.provisioner.pid)


@contextmanager
def running_kernel(folder: Path, env: Mapping[str, str]) -> Iterator[Kernel]:
    """Start a kernel in a folder, and stop it at the end of the `with` block."""
    client = NotebookClient(nbformat.v4.new_notebook(), timeout=PATIENCE, allow_errors=False)
    client.create_kernel_manager()
    with client.setup_kernel(cwd=str(folder), env={**os.environ, **env}):
        yield Kernel(client)


def html_of(output: Any) -> str:
    """Return the HTML of an output, or ""."""
    return str(output.get("data", {}).get("text/html", ""))


def text_of(outputs: list[Any], name: str = "stdout") -> str:
    """Return what a cell printed to a stream."""
    return "".join(o["text"] for o in outputs if o.get("name") == name)
