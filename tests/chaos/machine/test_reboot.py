"""The machine reboots, and other processes get the old pids."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos_seed import Chaos
from foreign_processes import Strangers, of_another_boot, rewritten
from home_processes import HomeWorld
from planned_trials import linger, marks, warm_up

from harness import BIN, PATIENCE, eventually

pytestmark = pytest.mark.thorough

LOST = "its supervisor died; its remaining processes were killed"


@pytest.fixture
def strangers(tmp_path: Path) -> Iterator[Strangers]:
    strangers = Strangers(tmp_path)
    yield strangers
    strangers.end()


@pytest.mark.parametrize("boot", ["the same", "another"])
def test_after_a_reboot_lost_trials_are_recorded_and_queued_trials_run(
    world: HomeWorld,
    folder: Path,
    strangers: Strangers,
    chaos: Chaos,
    monkeypatch: pytest.MonkeyPatch,
    boot: str,
) -> None:
    monkeypatch.setenv("WINDLASS_CPUS", "1")
    (folder / "ended.go").touch()
    ended = linger.submit("ended", str(folder))
    assert ended.result(timeout=PATIENCE) == "ended"
    warm_up()
    running = [
        linger.options(cpus=0.05).submit(f"runs-{n}", str(folder), 1)
        for n in range(chaos.pick(2, 8))
    ]
    retried = linger.options(cpus=0.05, retries=1).submit("retried", str(folder))
    begun = [*running, retried]
    eventually(
        lambda: all(world.state(trial.id).get("stage") == "running" for trial in begun), "all run"
    )
    names = [str(trial.params["name"]) for trial in begun]
    eventually(lambda: all(marks(folder, name) for name in names), "all left their mark")
    # Output that is still in a pipe is lost with the supervisor. Output in the log must stay.
    eventually(lambda: all(list(trial.logs()) for trial in begun), "their lines are kept")
    queued = linger.options(cpus=1).submit("queued", str(folder))
    assert queued.refresh().state == "QUEUED"

    world.kill_all()
    for trial in begun:
        with rewritten(world.attempt(trial.id) / "state.json") as state:
            for who in ("supervisor", "process"):
                _usurp(strangers, state[who], boot, chaos)
    with rewritten(world.home / "server.json") as record:
        _usurp(strangers, record, boot, chaos, is_family=False)
    (folder / "queued.go").touch()
    (folder / "retried.go").touch()

    # A stop of a dead server does not signal the process that has its pid.
    subprocess.run([BIN / "windlass", "server", "stop"], check=True, capture_output=True)
    assert queued.result(timeout=PATIENCE) == "queued"
    for trial in running:
        trial.wait(timeout=PATIENCE)
        assert (trial.state, trial.exit_code) == ("FAILED", None)
        assert LOST in trial.message
        assert len(trial.attempts) == len(marks(folder, str(trial.params["name"]))) == 1
        assert list(trial.logs()) == [f"{trial.params['name']} lingers"]
    assert retried.result(timeout=PATIENCE) == "retried"
    assert [attempt.exit_code for attempt in retried.refresh().attempts] == [None, 0]
    assert len(marks(folder, "retried")) == 2
    assert ended.refresh().result() == "ended"
    assert len(marks(folder, "ended")) == len(marks(folder, "queued")) == 1
    for trial in begun:
        trial.stop(grace=0)  # outdated by now, and harmless
    world.check_idle()
    harmed = [stranger.number for stranger in strangers.all if not stranger.is_unharmed]
    assert not harmed, (
        f"taken for ours: {harmed} of {[stranger.number for stranger in strangers.all]}"
    )


def _usurp(
    strangers: Strangers,
    record: dict[str, object],
    boot: str,
    chaos: Chaos,
    is_family: bool | None = None,
) -> None:
    """Give a foreign process the pid of a process that a file names."""
    if is_family is None:
        is_family = chaos.random.random() < 0.75
    stranger = strangers.take_over(record, is_family=is_family)
    if boot == "another":
        record["identity"] = of_another_boot(stranger)
