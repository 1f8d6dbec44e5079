"""Starts TensorBoard on the event files of trials.

TensorBoard reads a temporary folder with one sub-folder per trial. On the server's machine, each
sub-folder has links to the trial's files. On any other machine, it is a copy. New files are added
every few seconds. Programs can write event files to `wl.tensorboard_dir()` or to any folder in
their working folder, such as `runs`.
"""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.resources.trial.artifacts import EVENT_FILES, replicas_of
from windlass.model.errors import InvalidArgument, NotFound, WindlassError
from windlass.worker.blobs.written_files import WORK
from windlass.worker.common.file_reads import list_folder
from windlass.worker.common.own_attempt import OUTPUTS
from windlass.worker.program.output_dir import TENSORBOARD
from windlass.worker.supervise.linux import die_with_parent

if TYPE_CHECKING:
    from windlass.client.resources.trial.trial import Trial

_URL = re.compile(r"TensorBoard \S+ at (http\S+)")
_GRACE = 5.0
_EVERY = 5.0  # seconds between updates of TensorBoard and of copied files
_MOST_LINES = 20


class TensorBoard:
    """A TensorBoard process that runs during a `with` block."""

    def __init__(
        self, trials: Sequence[Trial[Any]], *, port: int | None = None, host: str | None = None
    ) -> None:
        self.url = ""
        self._trials = _with_files(trials)
        listening = ["--port", str(port)] if port is not None else []
        listening += ["--host", host] if host is not None else []
        self._command = [*_program(), "--reload_interval", f"{_EVERY:g}", *listening]
        self._done = threading.Event()

    def __enter__(self) -> TensorBoard:
        self._folder = tempfile.mkdtemp(prefix="windlass-tensorboard-")
        try:
            for trial in self._trials:
                self._lay_out(trial)
            self._process = subprocess.Popen(
                [*self._command, "--logdir", self._folder],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C reaches only this process
                preexec_fn=lambda: die_with_parent(signal.SIGTERM),
            )
        except BaseException:  # remove the folder, also on Ctrl-C
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        try:
            self._wait_for_url()
        except BaseException:  # end TensorBoard, also on Ctrl-C
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._process.terminate()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def attend(self) -> int:
        """Wait until TensorBoard ends and return its exit code.

        Ctrl-C ends the wait, with exit code 0.
        """
        try:
            threading.Thread(target=self._keep_up, daemon=True).start()
            for _ in self._lines():
                pass  # read all output, because a full pipe would block TensorBoard
            return self._process.wait()
        except KeyboardInterrupt:
            return 0

    @property
    def _is_here(self) -> bool:
        """Whether the trials' files are on this machine.

        An existing path is no evidence, because a remote server's path can also exist here.
        """
        return self._trials[0]._transport.endpoint.is_embedded

    def _lay_out(self, trial: Trial[Any]) -> None:
        """Add a trial's files to the folder, unless they are there already."""
        run = os.path.join(self._folder, _run_name(trial))
        if self._is_here:
            _link_events(trial, run)
        else:
            trial.download_tensorboard(run)

    def _keep_up(self) -> None:
        """Add new files until all trials have ended."""
        left = list(self._trials)
        while left and not self._done.wait(_EVERY):
            for trial in list(left):
                with contextlib.suppress(WindlassError, OSError):  # the next update retries
                    is_over = trial.refresh().is_finished
                    self._lay_out(trial)
                    if is_over:
                        left.remove(trial)

    def _wait_for_url(self) -> None:
        output: collections.deque[str] = collections.deque(maxlen=_MOST_LINES)
        for line in self._lines():
            output.append(line.rstrip())
            if match := _URL.search(line):
                self.url = match[1]
                return
        code = self._process.wait()
        raise WindlassError(
            f"TensorBoard exited with code {code} before it was ready.",
            hint="It said:\n" + "\n".join(output),
        )

    def _lines(self) -> Any:
        assert self._process.stderr is not None  # noqa: S101 -- stderr is a pipe
        return iter(self._process.stderr.readline, "")


def download_boards(trials: Sequence[Trial[Any]], folder: str) -> None:
    """Write trials' TensorBoard files to a folder, with one sub-folder per trial."""
    for trial in _with_files(trials):
        trial.download_tensorboard(os.path.join(folder, _run_name(trial)))


def _link_events(trial: Trial[Any], run: str) -> None:
    """Create links to the TensorBoard files of a trial on this machine."""
    replicas = sorted(replicas_of(trial.record))
    for role, index in replicas:
        own = f"{role}-{index}"
        top = os.path.join(run, own) if len(replicas) > 1 else run
        source = os.path.join(trial.directory, own)
        board = os.path.join(source, OUTPUTS, TENSORBOARD)
        for name in list_folder(board):
            _link(os.path.join(board, name), os.path.join(top, name))
        for file in trial.list_artifacts(EVENT_FILES, role=role, index=index):
            path = os.fsdecode(file.path)
            if not path.startswith(f"{TENSORBOARD}/"):
                in_outputs = os.path.join(source, OUTPUTS, path)
                is_output = os.path.lexists(in_outputs)
                real = in_outputs if is_output else os.path.join(source, WORK, path)
                _link(real, os.path.join(top, path))


def _link(source: str, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.symlink(source, path)


def _with_files(trials: Sequence[Trial[Any]]) -> list[Trial[Any]]:
    """Return the trials that have TensorBoard files or might still write such files."""
    with_files = [trial for trial in trials if not trial.is_finished or _has_files(trial)]
    if not with_files:
        ids = ", ".join(str(trial.id) for trial in trials) or "none"
        raise NotFound(
            f"These trials wrote nothing for TensorBoard: {ids}.",
            hint="Write events to a folder such as runs, or to wl.tensorboard_dir(): "
            "SummaryWriter(wl.tensorboard_dir())",
        )
    return with_files


def _has_files(trial: Trial[Any]) -> bool:
    patterns = (f"{TENSORBOARD}/*", EVENT_FILES)
    return any(next(trial.list_artifacts(pattern), None) is not None for pattern in patterns)


def _run_name(trial: Trial[Any]) -> str:
    name = re.sub(r"[^\w.=-]+", "_", trial.name)[:80]
    return f"{trial.id}-{name}"


def _program() -> list[str]:
    """Return the command that starts TensorBoard.

    TensorBoard in this process's Python environment takes precedence over the PATH.
    """
    if importlib.util.find_spec("tensorboard") is not None:
        return [sys.executable, "-m", "tensorboard.main"]
    program = shutil.which("tensorboard")
    if program is None:
        raise InvalidArgument(
            "TensorBoard is not installed here.",
            hint="Install it: pip install tensorboard\n"
            "Or download the files: windlass tensorboard ID --to DIR",
        )
    return [program]
