"""Trials of a lost cluster can be ended, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.proxies import Proxy
from on_kubernetes.runtime.trials import (
    begun,
    claims_of,
    is_empty,
    log_lines,
    pods_of,
    python,
    replica_messages,
    restart,
    there,
    times_begun,
)
from on_kubernetes.untrusted_server import Stranger
from windlass.runtimes.kubernetes.objects import names as pod_names


def nobody_answers(proxy: Proxy, folder: Path) -> Callable[[], None]:
    proxy.shut()
    return proxy.recover


def nothing_comes_back(proxy: Proxy, folder: Path) -> Callable[[], None]:
    proxy.hold()
    proxy.cut()
    return proxy.go_on


def another_answers(proxy: Proxy, folder: Path) -> Callable[[], None]:
    stranger, before = Stranger(folder), proxy.target
    proxy.target = stranger.address
    proxy.cut()

    def go_back() -> None:
        stranger.close()
        proxy.target = before

    return go_back


def windlass(*words: object) -> subprocess.Popen[str]:
    """Start a command without waiting for it."""
    return subprocess.Popen(
        [str(BIN / "windlass"), *map(str, words)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "go_away",
    [
        nobody_answers,
        pytest.param(nothing_comes_back, marks=pytest.mark.thorough),
        pytest.param(another_answers, marks=pytest.mark.thorough),
    ],
)
def test_a_trial_of_a_lost_cluster_is_given_up_and_cleaned_up_when_it_is_back(
    go_away: Callable[[Proxy, Path], Callable[[], None]],
    proxy: Proxy, home_behind_proxy: Path, namespace: Namespace, gate: Gate, tmp_path: Path,
) -> None:  # fmt: skip
    trial = begun(namespace, gate)
    come_back = go_away(proxy, tmp_path)
    try:
        asking = windlass("stop", "--grace", "1s", trial.id)
        advice = f"to give it up: windlass stop --force {trial.id}"
        eventually(lambda: advice in trial.refresh().message, "the next step is reported")
        assert trial.state == "STOPPING" and asking.poll() is None

        forcing = windlass("stop", "--force", trial.id)
        output, _ = forcing.communicate(timeout=PATIENCE)
        assert forcing.returncode == 0
        assert asking.wait(timeout=PATIENCE) == 0, "waiting clients are notified as well"
        trial.refresh()
        assert trial.state == "STOPPED"
        [attempt] = trial.attempts
        assert (attempt.reason, attempt.exit_code) == ("GivenUp", None)
        mine = f"{pod_names.UID}={trial.record.uid}"
        by_hand = f"kubectl --namespace {namespace.name} delete pods,services,secrets"
        for text in (output, trial.message, attempt.message):
            assert f"{by_hand} --selector {mine}" in text
        assert len(claims_of(home_behind_proxy)) == 1
        [name] = pods_of(namespace)
        assert namespace.phase(name) == "Running", "nobody could touch it"

        gone = windlass("rm", "--yes", trial.id)
        assert gone.wait(timeout=PATIENCE) == 0
    finally:
        come_back()
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
    eventually(lambda: not claims_of(home_behind_proxy), "nor in the home")
    assert times_begun(gate, trial) == 1


SCRIPT = """
import windlass as wl
wl.Job(
    wl.Command(["python3", "-c", "import time; time.sleep(1000)"]),
    executor=wl.Kubernetes(namespace={namespace!r}, cpus=0.05),
).run()
"""


@pytest.mark.thorough
def test_ctrl_c_reports_the_lost_cluster_with_a_remedy(
    proxy: Proxy, home_behind_proxy: Path, namespace: Namespace, tmp_path: Path
) -> None:
    project = Project(tmp_path / "project")
    script = project.write("run.py", SCRIPT.format(namespace=namespace.name))
    with open(tmp_path / "stderr", "w") as err:
        running = subprocess.Popen([sys.executable, script], cwd=project.path, stderr=err)
    read_stderr = (tmp_path / "stderr").read_text
    eventually(lambda: bool(list(wl.list_trials(state="RUNNING"))), "it runs")
    [trial] = wl.list_trials()
    proxy.shut()
    try:
        running.send_signal(signal.SIGINT)
        eventually(lambda: f"windlass stop --force {trial.id}" in read_stderr(), "it is reported")
        assert (
            f"Trial {trial.id} (python3) stopping: " in read_stderr()
            and "cannot be reached" in read_stderr()
        )
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=PATIENCE) != 0
        assert f"Left trial {trial.id} while it stops." in read_stderr()
        assert trial.refresh().state == "STOPPING"
        ended = trial.stop(force=True).wait(timeout=PATIENCE)
        assert ended.state == "STOPPED"
        with pytest.raises(wl.TrialStopped, match="Its pods may still run there"):
            ended.result()
    finally:
        proxy.recover()
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


@pytest.mark.thorough
def test_a_trial_of_a_server_without_a_kubeconfig_is_given_up_until_it_has_one(
    home_behind_proxy: Path, cluster: Cluster, namespace: Namespace, gate: Gate, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    trial, kubeconfig = begun(namespace, gate), Path(os.environ["KUBECONFIG"])
    nowhere = tmp_path / "no-such-file"
    again = restart(home_behind_proxy, monkeypatch, nowhere).get_trial(trial.id)
    why = f"There is no kubeconfig file '{nowhere}'"
    eventually(lambda: why in replica_messages(again), "the reason for missing reports is reported")
    assert again.state == "RUNNING"
    again.stop(grace=0, force=True).wait(timeout=PATIENCE)
    assert again.state == "STOPPED" and why in again.message
    again.delete()
    assert len(pods_of(namespace)) == 1 and len(claims_of(home_behind_proxy)) == 1

    restart(home_behind_proxy, monkeypatch, kubeconfig).server_info()
    eventually(lambda: is_empty(namespace), "what it left there is deleted", 2 * PATIENCE)
    eventually(lambda: not claims_of(home_behind_proxy), "and forgotten")
    assert times_begun(gate, trial) == 1


STUBBORN = """if True:
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("begun", flush=True)
    while True:
        signal.pause()
"""


@pytest.mark.thorough
def test_the_next_server_gives_up_a_trial_that_its_predecessor_was_to_give_up(
    proxy: Proxy, home_behind_proxy: Path, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = python(STUBBORN, namespace).submit()
    eventually(lambda: log_lines(trial) == ["begun"], "it runs")
    trial.stop(grace=600, force=True)  # while the cluster answers, the command waits for it
    assert trial.state == "STOPPING"
    proxy.hold()
    kubeconfig = Path(os.environ["KUBECONFIG"])
    again = restart(home_behind_proxy, monkeypatch, kubeconfig).get_trial(trial.id)
    again.wait(timeout=PATIENCE)
    assert (again.state, [attempt.reason for attempt in again.attempts]) == ("STOPPED", ["GivenUp"])
    proxy.go_on()
    # The program is stopped, ignores that, and has a minute of grace.
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster", 2 * PATIENCE)


ENDING = """if True:
    import signal, sys
    def end(*_):
        print("saves its state", flush=True)
        sys.exit(3)
    signal.signal(signal.SIGTERM, end)
    print("begun", flush=True)
    while True:
        signal.pause()
"""


def test_a_trial_of_a_reachable_cluster_is_stopped_normally_also_by_force(
    home_behind_proxy: Path, namespace: Namespace
) -> None:
    trial = python(ENDING, namespace).submit()
    eventually(lambda: log_lines(trial) == ["begun"], "it runs")
    trial.stop(force=True).wait(timeout=PATIENCE)
    [attempt] = trial.attempts
    assert (trial.state, attempt.reason, attempt.exit_code) == ("STOPPED", "Stopped", 3)
    assert log_lines(trial) == ["begun", "saves its state"]
    assert trial.message == "stopped"
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


FAILING = """if True:
    import os, pathlib, sys, time
    print("begun", flush=True)
    while os.environ["WINDLASS_INDEX"] != "0" or not pathlib.Path("/gate/fail").exists():
        time.sleep(0.1)
    sys.exit(1)
"""


@pytest.mark.thorough
def test_leftovers_of_a_failed_trial_in_a_lost_cluster_are_given_up(
    proxy: Proxy, home_behind_proxy: Path, namespace: Namespace, gate: Gate
) -> None:
    executor = there(namespace, volumes=gate.volumes)
    job = python(
        FAILING, namespace, executor=executor, replicas=2, clean_policy="None",
        restart_policy="Never",
    )  # fmt: skip
    trial = job.submit()
    for index in range(2):
        eventually(lambda index=index: log_lines(trial, index=index) == ["begun"], "it runs")
    gate.create("fail")
    trial.wait(timeout=PATIENCE)
    assert trial.state == "FAILED"
    proxy.shut()
    try:
        output, _ = windlass("stop", trial.id).communicate(timeout=PATIENCE)
        assert "Also stopping: main-1." in output
        with pytest.raises(wl.Conflict):  # it may be running still
            trial.delete()
        advice = f"to give it up: windlass stop --force {trial.id}"
        eventually(lambda: advice in replica_messages(trial), "what can be done is noted")
        output, _ = windlass("stop", trial.id).communicate(timeout=PATIENCE)
        assert advice in output
        assert windlass("stop", "--force", trial.id).wait(timeout=PATIENCE) == 0

        def is_deleted() -> bool:
            return windlass("rm", "--yes", trial.id).wait(timeout=PATIENCE) == 0

        eventually(is_deleted, "nothing of it is waited for any more")
    finally:
        proxy.recover()
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
