"""What waits for the cluster goes on when there is news of it, not when a pause is over."""

from __future__ import annotations

from pathlib import Path

from harness import PATIENCE, eventually
from kube.pods import Namespace
from kube.proxies import Proxy
from kube.trials import is_empty, python, said, what_is_said_of
from rigged import rigged
from windlass.runtimes.kubernetes import naming


def test_one_whose_name_a_stranger_has_starts_when_the_stranger_is_gone(
    home_with_cluster: Path, namespace: Namespace, tmp_path: Path
) -> None:
    holding = tmp_path / "holding"
    holding.mkdir()
    with rigged(home_with_cluster, f"stubborn;hold:POST:secrets:{holding}"):
        trial = python("print('at last')", namespace).submit()
        eventually(lambda: (holding / "held").exists(), "it is about to be made")
        base = naming.base_of(trial.id, trial.record.uid)
        taken = f"{base}-main-0-1"
        namespace.pod(taken, "sleep", "1000")
        (holding / "go").touch()
        eventually(lambda: "which is not of this job" in what_is_said_of(trial), "that is told")
        namespace.core.delete_namespaced_pod(taken, namespace.name, grace_period_seconds=0)
        trial.wait(timeout=PATIENCE)
        assert trial.state == "SUCCEEDED", trial.message
        assert said(trial) == ["at last"]
        eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def test_what_failed_while_the_cluster_was_away_is_done_when_it_is_back(
    proxy: Proxy, home_behind_proxy: Path, namespace: Namespace, tmp_path: Path
) -> None:
    holding = tmp_path / "holding"
    holding.mkdir()
    with rigged(home_behind_proxy, f"stubborn;hold:POST:secrets:{holding}"):
        trial = python("print('at last')", namespace).submit()
        eventually(lambda: (holding / "held").exists(), "it is about to be made")
        proxy.shut()
        (holding / "go").touch()
        eventually(lambda: "cannot be reached" in what_is_said_of(trial), "that is told")
        eventually(lambda: _has_failed(home_behind_proxy), "what is to be done there fails")
        proxy.mend()
        trial.wait(timeout=PATIENCE)
        assert trial.state == "SUCCEEDED", trial.message
        assert said(trial) == ["at last"]
        eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def _has_failed(home: Path) -> bool:
    """Whether something was tried, and failed: so its log says."""
    return "in a cluster: " in (home / "server.log").read_text()
