"""Attempts that run without access to the server's files return everything, on both transports."""

from __future__ import annotations

import json
import pickle
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from agent_processes import RemoteSite, programs, request

import windlass as wl
from harness import PATIENCE, eventually, kill_server
from windlass.model.job import Assignment, Job
from windlass.model.status import ReplicaId
from windlass.runtimes import paths, remote_attempt
from windlass.worker.common.atomic_files import write_json


@pytest.fixture(params=["dialled", pytest.param("tunnelled", marks=pytest.mark.thorough)])
def elsewhere(home: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RemoteSite]:
    """A location whose agents reach the server, and one whose agents the server must reach."""
    place = RemoteSite(home, tmp_path / "elsewhere", through_tunnels=request.param == "tunnelled")
    yield place
    place.front.close()


def finished(function: object, *args: object, **kwargs: object) -> wl.Trial[object]:
    """A finished trial of a function. Only the test starts another attempt of it."""
    trial: wl.Trial[object] = wl.run(function).submit(*args, **kwargs)  # type: ignore[call-overload]
    return trial.wait(timeout=120)


def test_a_function_runs_remotely_and_its_value_comes_back(elsewhere: RemoteSite) -> None:
    agent = elsewhere.run(finished(programs.greet, "ada"))
    assert agent.wait() == 0
    assert agent.log() == "hello ada"
    assert pickle.loads((agent.folder / paths.RESULT).read_bytes()) == "ADA"
    assert agent.ending()["exit_code"] == 0


@pytest.mark.finding("U13")
def test_large_arguments_reach_a_remote_attempt(elsewhere: RemoteSite) -> None:
    numbers = list(range(200_000))
    agent = elsewhere.run(finished(programs.measure, bytes(9_000_000), numbers))
    assert agent.wait() == 0, agent.log()
    value = pickle.loads((agent.folder / paths.RESULT).read_bytes())
    assert value == (9_000_000, sum(numbers))


@pytest.fixture(scope="module")
def greeted(module_home: Path) -> wl.Trial[object]:
    """A finished trial, for tests that need any finished trial."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("WINDLASS_HOME", str(module_home))
        environment.delenv("WINDLASS_SERVER", raising=False)
        return finished(programs.greet, "a")


def test_an_exception_comes_back_with_its_type_and_the_exit_code(elsewhere: RemoteSite) -> None:
    agent = elsewhere.run(finished(programs.fail))
    assert agent.wait() == 1
    assert "ValueError: not today" in agent.log()
    assert isinstance(pickle.loads((agent.folder / paths.ERROR_PICKLE).read_bytes()), ValueError)


def test_checkpoints_metrics_and_outputs_come_back_and_the_next_attempt_resumes(
    elsewhere: RemoteSite, tmp_path: Path
) -> None:
    trial = finished(programs.learn, "x")
    agent = elsewhere.run(trial)
    assert agent.wait() == 0, agent.log()
    # The first attempt, on the server's machine, reached step 2.
    assert pickle.loads((agent.folder / paths.RESULT).read_bytes()) == 3
    steps = [checkpoint.step for checkpoint in trial.refresh().list_checkpoints(sort_by="step")]
    assert steps == [0, 1, 2, 3, 4, 5]
    *_, last = trial.list_checkpoints(sort_by="step")
    folder = last.download(tmp_path / "last")
    texts = [(folder / name).read_text() for name in ("step", "3", "30")]
    assert texts == ["5", "3 at 5", "30 at 0"]
    assert (agent.folder / paths.METRICS).stat().st_size == 3 * 40
    assert (agent.folder.parent / "outputs" / "report.txt").read_text() == "from 3"
    # The agent keeps only checkpoints that a program could still restore.
    records = list((agent.there / "trials").rglob("checkpoints/*.json"))
    assert len(records) == 1


@pytest.mark.finding("U8")
def test_files_in_the_working_folder_come_back_without_caches(elsewhere: RemoteSite) -> None:
    trial = finished(programs.write_files)
    names = {"model.pt", "runs/events.out.tfevents.1", "parent/results.csv"}
    assert {artifact.name for artifact in trial.list_artifacts()} == names
    outputs = Path(trial.directory) / "main-0" / "outputs"
    shutil.rmtree(outputs)  # of the attempt on the server's machine
    agent = elsewhere.run(trial)
    assert agent.wait() == 0, agent.log()
    uploaded = {str(path.relative_to(outputs)) for path in outputs.rglob("*") if path.is_file()}
    assert uploaded == names


def test_parts_saved_by_ranks_on_different_machines_are_one_checkpoint(
    elsewhere: RemoteSite, tmp_path: Path
) -> None:
    trial = wl.run(programs.save_parts, replicas=2).submit(2).wait(timeout=PATIENCE)
    first, second = (elsewhere.run(trial, index=index) for index in (0, 1))
    assert (first.wait(), second.wait()) == (0, 0)
    uids = pickle.loads((first.folder / paths.RESULT).read_bytes())
    checkpoints_by_uid = {
        checkpoint.uid: checkpoint for checkpoint in trial.refresh().list_checkpoints()
    }
    assert len(checkpoints_by_uid) == 4  # two parts from the server's machine, two from an agent
    whole = checkpoints_by_uid[uids[1]]
    assert whole.list_files() == ["0.bin", "1.bin"]
    folder = whole.download(tmp_path / "whole")
    assert [path.read_text() for path in sorted(folder.iterdir())] == ["step 1 of 0", "step 1 of 1"]


def test_a_killed_server_loses_nothing_of_a_remote_attempt(
    elsewhere: RemoteSite, home: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    go.touch()
    trial = finished(programs.wait_for, str(go))
    go.unlink()
    agent = elsewhere.run(trial)
    agent.wait_for_text("waiting")
    kill_server(home)
    go.touch()
    # The program ends meanwhile, and the agent keeps its results.
    local = next((agent.there / "trials").rglob("2/state.json")).parent
    eventually(lambda: (local / paths.EXIT).exists(), "the program has ended")
    assert agent.process.poll() is None
    assert agent.ending() == {}
    wl.server_info()  # starts another server
    assert agent.wait() == 0
    assert agent.log() == "waiting\nwent on"
    assert agent.ending()["exit_code"] == 0


def test_a_remote_attempt_stops_within_its_grace_period(
    elsewhere: RemoteSite, home: Path, tmp_path: Path
) -> None:
    trial = finished(programs.wait_for, str(_there(tmp_path)))
    agent = elsewhere.run(trial)
    _leave(tmp_path)
    agent.wait_for_text("waiting")
    write_json(str(agent.folder / paths.STOP), {"grace": 0.1, "reason": ""})
    _publish(home, trial)
    agent.wait()
    assert agent.ending()["reason"] == "Stopped"


@pytest.mark.finding("U5")
def test_ctrl_c_interrupts_a_remote_program(
    elsewhere: RemoteSite, home: Path, tmp_path: Path
) -> None:
    trial = finished(programs.wait_for_interrupt, str(_there(tmp_path)))
    agent = elsewhere.run(trial)
    _leave(tmp_path)
    agent.wait_for_text("waiting")
    write_json(str(agent.folder / paths.STOP), {"grace": PATIENCE, "interrupt": True})
    _publish(home, trial)
    assert agent.wait() == 0  # the function has caught the KeyboardInterrupt and returned
    assert agent.ending()["reason"] == "Stopped"


def test_a_remote_program_sees_the_request_to_stop(
    elsewhere: RemoteSite, home: Path, tmp_path: Path
) -> None:
    trial = finished(programs.wait_for, str(_there(tmp_path)))
    agent = elsewhere.run(trial)
    _leave(tmp_path)
    agent.wait_for_text("waiting")
    write_json(str(paths.trial_dir(home, trial.id) / paths.SHOULD_STOP), {"reason": "enough"})
    _publish(home, trial)
    assert agent.wait() == 0
    assert "asked to stop" in agent.log()


def test_a_terminated_agent_uploads_the_results_of_its_program(
    elsewhere: RemoteSite, tmp_path: Path
) -> None:
    agent = elsewhere.run(
        finished(programs.wait_for, str(_there(tmp_path))), WINDLASS_AGENT_GRACE="20"
    )
    _leave(tmp_path)
    agent.wait_for_text("waiting")
    agent.process.send_signal(signal.SIGTERM)
    agent.wait()
    # No user stopped the trial. The exit code of its program does not count.
    assert (agent.ending()["reason"], agent.ending().get("exit_code")) == ("Evicted", None)


@pytest.mark.thorough
def test_an_attempt_that_was_replaced_writes_nothing_more(
    elsewhere: RemoteSite, tmp_path: Path
) -> None:
    trial = finished(programs.wait_for, str(_there(tmp_path)))
    old = elsewhere.run(trial, 2)
    _leave(tmp_path)
    old.wait_for_text("waiting")
    before = old.log()
    new = elsewhere.run(trial, 3)
    new.wait_for_text("waiting")
    _there(tmp_path)
    assert new.wait() == 0
    old.wait()
    assert old.log() == before
    assert old.ending() == {}


def test_repeatedly_broken_connections_neither_lose_nor_repeat_a_line(
    home: Path, tmp_path: Path
) -> None:
    place = RemoteSite(home, tmp_path / "elsewhere", through_tunnels=True)
    agent = place.run(finished(programs.chatter, 3000))
    assert agent.tunnels is not None
    for _ in range(40):  # not always: on a busy machine no request would get through
        agent.tunnels.cut()
        try:
            agent.process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        break
    assert agent.wait() == 0
    assert agent.log().splitlines() == [f"line {number}" for number in range(3000)]
    assert (agent.folder / paths.METRICS).stat().st_size == 3000 * 40


def test_a_waiting_agent_trusts_only_its_server(home: Path, tmp_path: Path) -> None:
    place = RemoteSite(home, tmp_path / "elsewhere", through_tunnels=True)
    agent = place.run(finished(programs.greet, "bob"))
    assert agent.tunnels is not None
    stranger = agent.tunnels.knock(b"WINDLASS-TUNNEL/1 guessed\n")
    assert stranger.recv(100) == b""  # closed without a response
    assert agent.wait() == 0


def test_the_token_of_a_trial_gives_access_only_to_that_trial(home: Path) -> None:
    place, one, other = _server(home), finished(programs.greet, "a"), finished(programs.greet, "b")
    token = place.token(one.record.uid)
    url = place.url()
    own = f"{url}/api/v1/agents/{one.record.uid}/main/0/1/orders"
    assert request(own.replace(one.record.uid, other.record.uid), token) == 401
    for path in ("trials", "experiments", f"trials/{one.id}", "blobs?digests=" + "0" * 64):
        assert request(f"{url}/api/v1/{path}", token) == 401
    assert request(own, (home / "token").read_text().strip()) == 401
    assert request(own, token) == 404  # nor to an attempt of it that runs here
    _ask_again(home, one)
    assert request(own.replace("/main/0/1/", "/main/0/2/"), token) == 200


@pytest.mark.parametrize(
    "path", ["../log", "a/../../x", "/etc/passwd", "a//b", ".", "a/./b", "%00", ""]
)
def test_outputs_stay_below_the_outputs_folder(
    home: Path, greeted: wl.Trial[object], path: str
) -> None:
    place, folder = _server(home), _ask_again(home, greeted)
    base = f"{place.url()}/api/v1/agents/{greeted.record.uid}/main/0/2"
    quoted = path if path == "%00" else quote(path, safe="")
    status = request(f"{base}/outputs?path={quoted}", place.token(greeted.record.uid), "PUT", b"x")
    assert status == 400
    assert not (folder.parent / "outputs").exists() or not any(
        (folder.parent / "outputs").iterdir()
    )


def test_repeated_uploads_are_stored_once_and_gaps_are_refused(home: Path) -> None:
    trial = finished(programs.greet, "a")
    place, folder = _server(home), _ask_again(home, trial)
    url = f"{place.url()}/api/v1/agents/{trial.record.uid}/main/0/2/ship"
    token = place.token(trial.record.uid)
    for start, data in ((0, b"abc"), (0, b"abc"), (1, b"bcde"), (9, b"late"), (2, b"c")):
        head = json.dumps([["log", start, len(data)]]).encode()
        assert request(url, token, "POST", head + b"\n" + data) == 200
    assert (folder / paths.LOG).read_bytes() == b"abcde"
    for junk in (
        b"",
        b"[]x\ny",
        b'[["../x",0,1]]\ny',
        b'[["exit.json",0,1]]\ny',
        b'[["log",0,9]]\ny',
    ):
        assert request(url, token, "POST", junk) == 400


def _server(home: Path) -> RemoteSite:
    wl.server_info()
    place = RemoteSite.__new__(RemoteSite)
    place.home = home
    return place


def _ask_again(home: Path, trial: wl.Trial[object]) -> Path:
    record = trial.record
    job = Job(uid=record.uid, trial_id=record.id, spec=record.spec)
    return remote_attempt.ask_for(home, job, ReplicaId("main", 0, 2), Assignment())


def _there(tmp_path: Path) -> Path:
    (tmp_path / "go").touch()
    return tmp_path / "go"


def _leave(tmp_path: Path) -> None:
    (tmp_path / "go").unlink()


def _publish(home: Path, trial: wl.Trial[object]) -> None:
    """Notify everyone who waits for news of a trial."""
    from windlass.worker.common.nudge import send_once

    key = {"uid": trial.record.uid, "trial_id": trial.id, "about": "log"}
    send_once(json.dumps(key).encode(), json.loads((home / "server.json").read_text())["nudge"])
