"""Defines `wl.Checkpoint`, and functions that fetch checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.arguments.scopes import scope
from windlass.client.connection.pages import Listing, walk
from windlass.client.connection.transport import Transport, request_path
from windlass.client.resources.base import Resource
from windlass.model.errors import InvalidArgument, shown
from windlass.model.records import CheckpointRecord
from windlass.model.requests import ChangeCheckpoint, CheckpointPage
from windlass.model.text.quantities import format_size

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from typing_extensions import Self

    from windlass.client.resources.trial.trial import Trial


class Checkpoint(Resource[CheckpointRecord]):
    """The files that a trial saved at one step with `wl.save_checkpoint`.

    A checkpoint is never incomplete: it appears only after all its files were saved.

    ```python
    for checkpoint in wl.get_trial(3).list_checkpoints():
        print(checkpoint.id, checkpoint.step, checkpoint.size)
    ```
    """

    _collection = "checkpoints"
    _record_type = CheckpointRecord

    @property
    def transport(self) -> Transport:
        """The connection to the server that stores the checkpoint."""
        return self._transport

    @property
    def uid(self) -> str:
        """The unique id that `wl.save_checkpoint` returned.

        It is unique across servers.
        """
        return self._record.uid

    @property
    def trial_id(self) -> int:
        """The id of the trial that saved the checkpoint."""
        return self._record.trial_id

    @property
    def trial(self) -> Trial[Any]:
        """The trial that saved the checkpoint. Each access fetches the trial."""
        from windlass.client.resources.trial.trial import get_trial

        return get_trial(self._transport, self.trial_id)

    @property
    def number(self) -> int:
        """The checkpoint's number within its trial. The newest has the highest number."""
        return self._record.number

    @property
    def name(self) -> str:
        """The name of the saved file or folder."""
        return self._record.name

    @property
    def step(self) -> int | None:
        """The training step at which the checkpoint was saved, or None."""
        return self._record.step

    @property
    def attempt(self) -> int:
        """The number of the attempt (1, 2, ...) that saved the checkpoint."""
        return self._record.attempt

    @property
    def shards(self) -> int:
        """The number of ranks that each saved a part, or 0 if a single process saved all files."""
        return self._record.shards

    @property
    def files(self) -> int:
        """The number of files in the checkpoint."""
        return self._record.files

    @property
    def size(self) -> int:
        """The total size of the files, in bytes."""
        return self._record.size

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata, a mapping from names to JSON values."""
        return self._record.metadata

    @property
    def metrics(self) -> dict[str, float]:
        """The trial's metrics as of the checkpoint's step.

        A metric without a value at this step has its last earlier value.
        """
        return {name: float(value) for name, value in self._record.metrics.items()}

    @property
    def models(self) -> dict[str, int]:
        """The models that have this checkpoint as a version, with its version numbers.

        For example, `{"classifier": 3}`.
        """
        return self._record.models

    @property
    def continued_by(self) -> tuple[int, ...]:
        """The ids of the trials that started from this checkpoint."""
        return self._record.continued_by

    def list_files(self) -> list[str]:
        """List the paths of the files, relative to the saved folder.

        ```python
        print(wl.get_checkpoint(1).list_files())
        ```
        """
        from windlass.client.resources.checkpoint_files import fetch_files

        return [entry.path for entry in fetch_files(self._transport, self._record)]

    def download(self, folder: str | os.PathLike[str]) -> Path:
        """Write the files to a folder and return the path of the copy.

        The folder is created if needed. If a single file was saved, the returned path is that
        file's path in the folder. If a folder was saved, it is the path of the target folder. If
        the target folder already contains other files, an error is raised. If it already contains
        the same files, they stay unchanged.

        ```python
        wl.get_checkpoint(1).download("best-model")
        ```
        """
        from windlass.client.resources.checkpoint_files import download_checkpoint

        return download_checkpoint(self._transport, self._record, folder)

    def add_metadata(self, **metadata: Any) -> Self:
        """Set metadata entries to JSON values. All other entries stay unchanged.

        ```python
        wl.get_checkpoint(1).add_metadata(accuracy=0.93, note="the one in the paper")
        ```
        """
        return self._change(put_metadata=metadata)

    def remove_metadata(self, *names: str) -> Self:
        """Remove metadata entries by name. Unknown names are ignored.

        ```python
        wl.get_checkpoint(1).remove_metadata("note")
        ```
        """
        return self._change(remove_metadata=names)

    def delete(self) -> None:
        """Delete the checkpoint.

        If the checkpoint is a model version, or if a trial started from it, raise an error.

        ```python
        wl.get_checkpoint(1).delete()
        ```
        """
        self._transport.ask("DELETE", self._path, CheckpointRecord)

    def _change(self, **changes: Any) -> Self:
        import msgspec

        body = ChangeCheckpoint(**changes)
        try:
            msgspec.json.encode(body)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidArgument(
                f"metadata: {error}.", hint="Use numbers, strings, lists and mappings."
            ) from None
        return self._replace(self._transport.ask("PATCH", self._path, CheckpointRecord, body=body))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and other.uid == self.uid

    def __hash__(self) -> int:
        return hash(self.uid)

    def __repr__(self) -> str:
        at = "" if self.step is None else f" at step {self.step}"
        size = format_size(self.size)
        return f"<Checkpoint {self.id} of trial {self.trial_id}{at}: {self.name}, {size}>"


def get_checkpoint(transport: Transport, checkpoint_id: int | str) -> Checkpoint:
    """Fetch a checkpoint by its id or uid."""
    is_id = isinstance(checkpoint_id, int) and not isinstance(checkpoint_id, bool)
    if not is_id and not (isinstance(checkpoint_id, str) and checkpoint_id):
        raise InvalidArgument(
            f"{shown(checkpoint_id)} is not a checkpoint id. Write a whole number.",
            hint="See: windlass checkpoint ls",
        )
    path = request_path("checkpoints", checkpoint_id)
    return Checkpoint(transport, transport.ask("GET", path, CheckpointRecord))


def list_checkpoints(
    transport: Transport,
    trial: Trial[Any] | int | str | None = None,
    sort_by: str = "id",
    limit: int | None = None,
) -> Listing[Checkpoint]:
    """List the checkpoints of one or all trials, fetching pages on demand."""
    if sort_by in ("", "-"):
        raise InvalidArgument(f"{shown(sort_by)} is not a name to sort by.")
    query = {**scope("trial", trial), "sort": sort_by}
    pages = walk(transport, "/checkpoints", CheckpointPage, query, limit)
    return pages.map(lambda record: Checkpoint(transport, record))
