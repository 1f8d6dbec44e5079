"""The files of a trial, as its users fetch them: its code, what it left."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from windlass.client.pages import Listing
    from windlass.client.transport import Transport
    from windlass.model.records import OutputFile, TrialRecord


class WithFiles:
    """What can be fetched of a trial."""

    _transport: Transport
    _record: TrialRecord

    def download_code(self, folder: str | os.PathLike[str]) -> Path:
        """Write the very code it ran to a folder, which is made if need be.

        Roles with code of their own get a sub-folder each. A folder that holds anything else is
        refused; one that holds the same already is left as it is.

        ```python
        wl.get_trial(3).download_code("code-of-3")
        ```
        """
        from windlass.client.downloading import download_trial

        return download_trial(self._transport, self._record, folder)

    def list_artifacts(
        self, pattern: str | None = None, *, role: str | None = None, index: int | None = None
    ) -> Listing[OutputFile]:
        """The files that it left in `wl.output_dir()`, also while it runs: a page at a time.

        Each has `name` (its path in that folder), `size`, `modified`, and of which replica it is:
        `role`, `index`. In a pattern `*` stands for anything, also for `/`. Pipes, sockets, devices
        and links that lead out of the folder are no artifacts.

        ```python
        for artifact in wl.get_trial(3).list_artifacts("*.png"):
            print(artifact.name, artifact.size)
        ```
        """
        from windlass.client.outputs import list_outputs

        return list_outputs(
            self._transport, self._record.id, pattern=pattern, role=role, index=index
        )

    def download_artifacts(
        self,
        folder: str | os.PathLike[str],
        pattern: str | None = None,
        *,
        role: str | None = None,
        index: int | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write the files that it left to a folder, which is made if need be.

        Of several replicas, each gets a folder of its own in it (`worker-0`). What is there already
        is not fetched again, so a download that was cut goes on when it is asked for again. Another
        file of the same name is a `wl.Conflict`, unless `overwrite` is true.

        ```python
        wl.get_trial(3).download_artifacts("results", "*.pt")
        ```
        """
        from windlass.client.outputs import download_outputs

        return download_outputs(
            self._transport,
            self._record,
            folder,
            pattern=pattern,
            role=role,
            index=index,
            overwrite=overwrite,
        )

    def download_tensorboard(self, folder: str | os.PathLike[str]) -> Path:
        """Write what it left in `wl.tensorboard_dir()` to a folder; again, to have it up to date.

        Of several replicas, each gets a folder of its own in it, which TensorBoard shows as a run.

        ```python
        wl.get_trial(3).download_tensorboard("runs/3")
        ```
        """
        from windlass.client.outputs import download_below
        from windlass.worker.outputs import TENSORBOARD

        return download_below(self._transport, self._record, folder, TENSORBOARD)
