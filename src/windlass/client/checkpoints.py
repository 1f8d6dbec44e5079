"""Checkpoints as users hold them: what a trial saved, to be looked at, fetched, noted on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.pages import Listing, walk
from windlass.client.scopes import scope
from windlass.client.transport import Transport, path_of
from windlass.model.errors import InvalidArgument, shown
from windlass.model.quantities import format_size
from windlass.model.records import CheckpointRecord
from windlass.model.wire import ChangeCheckpoint, CheckpointPage

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from windlass.client.trials import Trial


class Checkpoint:
    """Files that a trial saved at some step (`wl.save_checkpoint`), whole.

    ```python
    for checkpoint in wl.get_trial(3).list_checkpoints():
        print(checkpoint.id, checkpoint.step, checkpoint.size)
    ```
    """

    def __init__(self, transport: Transport, record: CheckpointRecord) -> None:
        self._transport = transport
        self._record = record

    @property
    def record(self) -> CheckpointRecord:
        """All that is recorded of it, as plain data."""
        return self._record

    @property
    def transport(self) -> Transport:
        """The connection to the server that has it."""
        return self._transport

    @property
    def id(self) -> int:
        """The number by which it is asked for."""
        return self._record.id

    @property
    def uid(self) -> str:
        """What `wl.save_checkpoint` answered: the same in every home."""
        return self._record.uid

    @property
    def trial_id(self) -> int:
        """The trial that saved it."""
        return self._record.trial_id

    @property
    def trial(self) -> Trial[Any]:
        """The trial that saved it, asked for now."""
        from windlass.client.trials import Trial
        from windlass.model.records import TrialRecord

        path = path_of("trials", self.trial_id)
        return Trial(self._transport, self._transport.ask("GET", path, TrialRecord))

    @property
    def number(self) -> int:
        """Which of its trial's it is: the highest is the newest."""
        return self._record.number

    @property
    def name(self) -> str:
        """The name of the file or folder that was saved."""
        return self._record.name

    @property
    def step(self) -> int | None:
        """The step it was saved at, if that was said."""
        return self._record.step

    @property
    def created(self) -> float:
        """When it was saved, in seconds since the epoch."""
        return self._record.created

    @property
    def attempt(self) -> int:
        """The attempt that saved it."""
        return self._record.attempt

    @property
    def shards(self) -> int:
        """How many ranks saved a part of it; 0 if one saved it alone."""
        return self._record.shards

    @property
    def files(self) -> int:
        """How many files it has."""
        return self._record.files

    @property
    def size(self) -> int:
        """How large its files are together, in bytes."""
        return self._record.size

    @property
    def metadata(self) -> dict[str, Any]:
        """What was noted on it."""
        return self._record.metadata

    @property
    def metrics(self) -> dict[str, float]:
        """What its trial reported, as it stood at its step: then, or last before."""
        return {name: float(value) for name, value in self._record.metrics.items()}

    @property
    def models(self) -> dict[str, int]:
        """The models of which it is a version, and which: `{"classifier": 3}`."""
        return self._record.models

    @property
    def continued_by(self) -> tuple[int, ...]:
        """The trials that began with it."""
        return self._record.continued_by

    def refresh(self) -> Checkpoint:
        """Ask the server how it stands now."""
        path = path_of("checkpoints", self.id)
        self._record = self._transport.ask("GET", path, CheckpointRecord)
        return self

    def list_files(self) -> list[str]:
        """The paths of its files, below the folder that was saved.

        ```python
        print(wl.get_checkpoint(1).list_files())
        ```
        """
        from windlass.client.checkpoint_files import tree_of

        return [entry.path for entry in tree_of(self._transport, self._record)]

    def download(self, folder: str | os.PathLike[str]) -> Path:
        """Write its files to a folder, which is made if need be; where what was saved is now.

        Of a file that was saved that is the file in the folder; of a folder, the folder. One that
        holds anything else is refused; one that holds the same already is left as it is.

        ```python
        wl.get_checkpoint(1).download("best-model")
        ```
        """
        from windlass.client.checkpoint_files import download_checkpoint

        return download_checkpoint(self._transport, self._record, folder)

    def add_metadata(self, **metadata: Any) -> Checkpoint:
        """Note something on it: values that JSON can say, by name; the others stay.

        ```python
        wl.get_checkpoint(1).add_metadata(accuracy=0.93, note="the one in the paper")
        ```
        """
        return self._change(ChangeCheckpoint(put_metadata=metadata))

    def remove_metadata(self, *names: str) -> Checkpoint:
        """Have these notes no longer; one that is not there is no matter.

        ```python
        wl.get_checkpoint(1).remove_metadata("note")
        ```
        """
        return self._change(ChangeCheckpoint(remove_metadata=names))

    def delete(self) -> None:
        """Delete it. One that a model version or a trial that began with it needs is refused.

        ```python
        wl.get_checkpoint(1).delete()
        ```
        """
        self._transport.ask("DELETE", path_of("checkpoints", self.id), CheckpointRecord)

    def _change(self, change: ChangeCheckpoint) -> Checkpoint:
        import msgspec

        try:
            msgspec.json.encode(change)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidArgument(
                f"metadata: {error}.", hint="Numbers, texts, lists and mappings can be noted."
            ) from None
        path = path_of("checkpoints", self.id)
        self._record = self._transport.ask("PATCH", path, CheckpointRecord, body=change)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """It can be sent along: it arrives as it was, asking the server there."""
        return _revive, (self._record,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and other.uid == self.uid

    def __hash__(self) -> int:
        return hash(self.uid)

    def __repr__(self) -> str:
        at = "" if self.step is None else f" at step {self.step}"
        size = format_size(self.size)
        return f"<Checkpoint {self.id} of trial {self.trial_id}{at}: {self.name}, {size}>"


def list_checkpoints(
    transport: Transport,
    trial: Trial[Any] | int | str | None = None,
    sort_by: str = "id",
    limit: int | None = None,
) -> Listing[Checkpoint]:
    """Checkpoints, lazily: each page is asked for when it is needed."""
    if sort_by in ("", "-"):
        raise InvalidArgument(f"{shown(sort_by)} is nothing to sort by.")
    query = {**scope("trial", trial), "sort": sort_by}
    pages = walk(transport, "/checkpoints", CheckpointPage, query, limit)
    return pages.each(lambda record: Checkpoint(transport, record))


def _revive(record: CheckpointRecord) -> Checkpoint:
    from windlass.client.session import default_client

    return Checkpoint(default_client().transport, record)
