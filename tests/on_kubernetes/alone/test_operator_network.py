"""The network between an operator and the API server breaks. Every job ends correctly, once."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from harness import eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import Jobs, operating
from on_kubernetes.operator.planned_jobs import (
    Births,
    are_over,
    check_fates,
    create_fated,
    unfinished,
)
from on_kubernetes.proxies import Proxy

SEED = int(os.environ.get("WINDLASS_CHAOS_SEED") or random.randrange(10**6))


@pytest.mark.thorough
def test_jobs_end_correctly_while_connections_break_at_random(
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
                time.sleep(chance.uniform(0.1, 2.0))  # the moments are random
                proxy.cut()
            assert proxy.cuts > 10
            check_fates(jobs, births, names, SEED)
            eventually(lambda: process.ask("/readyz")[0] == 200, "it sees all again")
            assert process.ask("/healthz") == (200, "ok\n")
