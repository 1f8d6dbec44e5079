"""Trees that change faster than the client can upload them."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

import windlass as wl
from windlass.model.job import Code, JobSpec, ProcessCall, Role
from windlass.model.requests import CreateTrial
from windlass.packaging.draft import Draft
from windlass.packaging.project_files.project_root import Root
from windlass.packaging.snapshot import Snapshot, take_snapshot


def test_a_tree_that_changes_during_every_upload_is_reported_with_a_remedy(
    home: Path, tmp_path: Path
) -> None:
    tree, times = tmp_path / "tree", iter(range(100))
    tree.mkdir()

    def take_too_soon() -> Snapshot:
        (tree / "log").write_text(f"{next(times)}")
        taken = take_snapshot(Root(tree, "folder"), tmp_path / "cache")
        (tree / "log").write_text("what somebody else wrote just then")
        return taken

    snapshot = take_too_soon()
    role = Role(executable=ProcessCall(argv=("true",)))
    spec = JobSpec(roles=(role,), code=Code(tree=snapshot.tree))
    request = CreateTrial(key=uuid.uuid4().hex, experiment="restless", spec=spec)
    with pytest.raises(wl.SnapshotError, match="keeps changing") as raised:
        wl.Client().submit(Draft(request, snapshot, retake=take_too_soon))
    assert ".windlassignore" in str(raised.value)
    assert not list(wl.list_trials())
