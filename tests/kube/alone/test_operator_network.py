"""The network between an operator and the API server breaks: every job ends right, once."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from harness import eventually
from kube.access import Cluster
from kube.cluster.parts import part_named
from kube.fates import Births, are_over, check_fates, create_fated, unfinished
from kube.operating import Jobs, operating
from kube.proxies import Proxy
from windlass.model.errors import KubernetesError

SEED = int(os.environ.get("WINDLASS_CHAOS_SEED") or random.randrange(10**6))


@pytest.mark.slow
def test_connections_that_break_at_random_while_jobs_run(
    own_cluster: Cluster, jobs: Jobs, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    words = ("--namespace", jobs.namespace, "--lease-namespace", jobs.namespace)
    with Proxy(own_cluster) as proxy, Births(jobs) as births:
        config = str(proxy.kubeconfig(tmp_path))
        with operating(own_cluster, *words, kubeconfig=config) as process:
            process.wait_leading()
            names = create_fated(jobs, 15, chance)
            end = time.monotonic() + 600
            while not are_over(jobs, names):
                assert time.monotonic() < end, f"seed {SEED}: {unfinished(jobs, names)}"
                time.sleep(chance.uniform(0.1, 2.0))  # when they break is chance
                proxy.cut()
            assert proxy.cuts > 10
            check_fates(jobs, births, names, SEED)
            eventually(lambda: process.ask("/readyz")[0] == 200, "it sees all again")
            assert process.ask("/healthz") == (200, "ok\n")


@pytest.mark.slow
def test_watches_that_are_too_old_to_go_on_begin_anew(
    alone: Cluster, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happens while the operator is cut off is not told again by an API server that is new."""
    monkeypatch.setenv("WINDLASS_LOG_LEVEL", "DEBUG")
    die = "import os, sys, time; time.sleep(2); " + (
        "sys.exit(137 if os.environ['WINDLASS_ATTEMPT'] == '1' else 0)"
    )
    wait = "import time; time.sleep(1000)"
    with Proxy(alone) as proxy, Births(jobs) as births:
        config = str(proxy.kubeconfig(tmp_path))
        words = ("--namespace", jobs.namespace, "--alone")
        with operating(alone, *words, kubeconfig=config) as process:
            jobs.create("TFJob", "ends", Worker=jobs.role(2, "import time; time.sleep(2)"))
            jobs.create("PyTorchJob", "dies", Master=jobs.role(1, die, restartPolicy="ExitCode"))
            jobs.create("TFJob", "goes", Worker=jobs.role(1, wait))
            jobs.create("TFJob", "loses", Worker=jobs.role(1, wait))
            jobs.wait_running("goes-worker-0", "loses-worker-0")
            eventually(lambda: "dies-master-0" in jobs.pods(), "it is created")
            proxy.hold()
            assert proxy.cut() >= 4
            jobs.create("TFJob", "comes", Worker=jobs.role(1, "pass"))
            jobs.delete("TFJob", "goes")
            path = f"/api/v1/namespaces/{jobs.namespace}/pods/loses-worker-0"
            jobs.connection.request("DELETE", path, {})
            over = {"ends-worker-0", "ends-worker-1", "dies-master-0"}
            eventually(lambda: over <= _ended(jobs), "pods end unseen")
            eventually(
                lambda: not {"goes-worker-0", "loses-worker-0"} & set(jobs.pods()), "pods go unseen"
            )
            server = part_named("apiserver")
            server.stop()
            server.start()
            server.wait()
            eventually(lambda: _answers(jobs), "it is back")
            proxy.go_on()
            for kind, name in (("TFJob", "ends"), ("TFJob", "comes"), ("PyTorchJob", "dies")):
                assert jobs.ended(kind, name)["type"] == "Succeeded", name
            assert jobs.attempt("dies-master-0") == 2
            eventually(lambda: jobs.attempt("loses-worker-0") == 2, "it comes back")
            for kind in ("tfjobs", "pods"):
                told = [each for each in process.lines if f"watch of {kind}: " in each]
                assert any("too old resource version" in each for each in told), process.output
            jobs.delete("TFJob", "loses")
            eventually(lambda: not _live(jobs), "nothing runs any more")
            assert set(births.seen.values()) == {1}, births.seen


def _ended(jobs: Jobs) -> set[str]:
    return {
        name
        for name, pod in jobs.pods().items()
        if pod["status"].get("phase") in ("Succeeded", "Failed")
    }


def _live(jobs: Jobs) -> set[str]:
    return set(jobs.pods()) - _ended(jobs)


def _answers(jobs: Jobs) -> bool:
    try:
        return bool(jobs.get("TFJob", "ends"))
    except KubernetesError:  # it is away, or not yet sure who may do what
        return False
