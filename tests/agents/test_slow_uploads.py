"""Large files with a slow upload, or with a late or lost response, are sent once."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_processes import RemoteSite, programs
from http_relay import Between

import windlass as wl
from harness import PATIENCE
from windlass.server.stores.blobs import upload as receiving
from windlass.worker.agent.http_channel import FileBody, patience


@pytest.mark.thorough
def test_a_lost_response_does_not_repeat_the_upload_of_a_blob(home: Path, tmp_path: Path) -> None:
    elsewhere = RemoteSite(home, tmp_path / "elsewhere", through_tunnels=False)
    sign = tmp_path / "sign"
    trial = wl.run(programs.save).submit(str(sign)).wait(timeout=PATIENCE)
    sign.touch()
    came: list[str] = []

    def lose(request: str, answer: bytes) -> bytes | None:
        if not request.startswith("PUT ") or "/blobs/" not in request:
            return answer
        came.append(request)
        return None

    with Between(elsewhere.url, lose) as between:
        elsewhere.front.close()
        elsewhere.front.url = between.url
        assert elsewhere.run(trial).wait() == 0
    assert len(came) == len({*came}) == 2, "the file, and the list of files"
    (saved,) = trial.refresh().list_checkpoints()
    assert saved.download(tmp_path / "there").read_text() == "what is saved in a pod"


def test_the_response_to_a_large_file_may_take_as_long_as_the_disk(tmp_path: Path) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    small.touch()
    with large.open("wb") as file:
        file.truncate(1 << 30)
    assert patience(FileBody(str(large))) >= 600 > patience(FileBody(str(small)))


def test_a_large_file_is_written_to_disk_as_it_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "SYNC_EVERY", 1000)
    synced: list[int] = []
    path = tmp_path / "coming"
    monkeypatch.setattr("os.fsync", lambda _: synced.append(path.stat().st_size))
    with receiving.IncomingFile(path) as coming:
        for _ in range(25):
            coming.add(b"x" * 100)
        assert synced == [1000, 2000]
        coming.settle()
    assert synced == [1000, 2000, 2500]
    assert coming.size == 2500
