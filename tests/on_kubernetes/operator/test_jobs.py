"""Jobs on real pods: their ends, restarts, stops and leftovers."""

from __future__ import annotations

import json

import pytest

from harness import eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.gates import INSIDE, Gate
from on_kubernetes.operator.operator_process import PASS, SLEEP, Jobs, OperatorProcess
from windlass.kube.api.resource_kinds import PODS, Object


def leaving(code: int) -> str:
    return f"import sys; sys.exit({code})"


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob"])
def test_a_job_runs_and_succeeds(jobs: Jobs, operator: OperatorProcess, kind: str) -> None:
    leader = "Chief" if kind == "TFJob" else "Master"
    roles = {leader: jobs.role(1, "print('hello')"), "Worker": jobs.role(2, PASS)}
    made = jobs.create(kind, "train", **roles)
    assert jobs.ended(kind, "train")["type"] == "Succeeded"
    status = (jobs.get(kind, "train") or {})["status"]
    assert {"startTime", "completionTime", "lastReconcileTime"} <= set(status)
    assert status["conditions"][-1]["type"] == "Succeeded"
    assert status["replicaStatuses"][leader]["succeeded"] == 1
    names = [f"train-{leader.lower()}-0", "train-worker-0", "train-worker-1"]
    assert sorted(jobs.pods()) == sorted(jobs.services()) == sorted(names)
    for there in (jobs.pods(), jobs.services()):
        for name in names:
            _check_whose(there[name]["metadata"], made, *name.split("-")[1:])
    assert [name for name in names if _SPEAKER in jobs.pods()[name]["metadata"]["labels"]] == [
        names[0]
    ]
    assert jobs.logs(names[0]) == "hello\n"
    jobs.wait_event("train", "Completed: ")
    events = jobs.events("train")
    assert any(event.startswith("SuccessfulCreatePod: Created pod: ") for event in events)
    assert any(event.startswith("SuccessfulCreateService: ") for event in events)
    assert f"INFO windlass.operator.events: {kind} {jobs.namespace}/train: Completed: " in (
        operator.output
    )
    labels = {"namespace": jobs.namespace, "kind": kind}
    assert operator.metric("windlass_operator_jobs_created_total", **labels) == 1
    assert operator.metric("windlass_operator_jobs_succeeded_total", **labels) == 1


_LABEL = "training.kubeflow.org/"
_SPEAKER = f"{_LABEL}job-role"


def _check_whose(metadata: Object, job: Object, role: str, index: str) -> None:
    """Check the labels and owners of the pods and services of a job."""
    wanted = {
        f"{_LABEL}job-name": job["metadata"]["name"],
        f"{_LABEL}operator-name": f"{job['kind'].lower()}-controller",
        f"{_LABEL}replica-type": role,
        f"{_LABEL}replica-index": index,
    }
    assert wanted.items() <= metadata["labels"].items()
    [owner] = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == (job["kind"], job["metadata"]["uid"])
    assert owner["controller"] and owner["blockOwnerDeletion"]


@pytest.mark.case(2)
def test_restart_policies_work_on_real_pods(jobs: Jobs, operator: OperatorProcess) -> None:
    cases = [(policy, code) for policy in ("Never", "OnFailure", "Always") for code in (0, 1)]
    for policy, code in cases:
        role = jobs.role(1, leaving(code), restartPolicy=policy)
        limit = {"runPolicy": {"backoffLimit": 1}}
        jobs.create("TFJob", f"{policy.lower()}-{code}", spec=limit, Worker=role)
    for policy, code in cases:
        name = f"{policy.lower()}-{code}"
        end = jobs.ended("TFJob", name)
        is_restarted = policy == "Always" or (policy == "OnFailure" and code)
        if policy != "Always" and code == 0:
            assert end["type"] == "Succeeded", (name, end)
        else:
            reason = "BackoffLimitExceeded" if is_restarted else "ReplicaFailed"
            assert (end["type"], end["reason"]) == ("Failed", reason), (name, end)
        assert jobs.attempt(f"{name}-worker-0") == (2 if is_restarted else 1), name
    labels = {"namespace": jobs.namespace, "kind": "TFJob"}
    assert operator.metric("windlass_operator_jobs_failed_total", **labels) == 4
    assert operator.metric("windlass_operator_jobs_restarted_total", **labels) == 3
    assert operator.metric("windlass_operator_api_requests_total", method="POST") > 0


@pytest.mark.case(2)
@pytest.mark.parametrize(
    "codes",
    [(1, 137), pytest.param((127, 128, 130, 143, 255), marks=pytest.mark.thorough)],
    ids=["usual", "others"],
)
def test_exit_codes_work_on_real_pods(
    jobs: Jobs, operator: OperatorProcess, codes: tuple[int, ...]
) -> None:
    for code in codes:
        role = jobs.role(1, leaving(code), restartPolicy="ExitCode")
        limit = {"runPolicy": {"backoffLimit": 1}}
        jobs.create("PyTorchJob", f"train-{code}", spec=limit, Master=role)
    for code in codes:
        end = jobs.ended("PyTorchJob", f"train-{code}")
        is_retried = code >= 128
        reason = "BackoffLimitExceeded" if is_retried else "ReplicaFailed"
        assert (end["type"], end["reason"]) == ("Failed", reason), (code, end)
        assert f"exit code {code}" in end["message"]
        assert jobs.attempt(f"train-{code}-master-0") == (2 if is_retried else 1), code


def test_a_failure_is_reported_with_the_last_lines(jobs: Jobs, operator: OperatorProcess) -> None:
    role = jobs.role(1, "print('reading'); raise ValueError('no data')")
    jobs.create("TFJob", "train", Chief=role, Worker=jobs.role(1, SLEEP))
    message = jobs.ended("TFJob", "train")["message"]
    assert "chief-0 (attempt 1) failed with exit code 1" in message
    assert "ValueError: no data" in message
    jobs.wait_event("train", "ReplicaFailed: ", "ValueError: no data")


# Prints its addresses, and stays until it is stopped.
_STAY = f"""
import os, time
print(os.environ["TF_CONFIG"])
while not os.path.exists("{INSIDE}/end"):
    time.sleep(0.05)
"""


@pytest.mark.case(3)
@pytest.mark.parametrize(
    ("sizes", "victim"),
    [
        ({"Chief": 1, "Worker": 2}, "train-chief-0"),
        pytest.param({"Chief": 1, "Worker": 2}, "train-worker-0", marks=pytest.mark.thorough),
        pytest.param({"Worker": 2}, "train-worker-0", marks=pytest.mark.thorough),
    ],
    ids=["the chief", "worker 0 beside a chief", "worker 0, whose end is the job's"],
)
def test_a_killed_pod_restarts_under_its_name_and_the_others_continue(
    own_cluster: Cluster, jobs: Jobs, operator: OperatorProcess, gate: Gate,
    sizes: dict[str, int], victim: str,
) -> None:  # fmt: skip
    roles = {
        name: gate.equip(jobs.role(number, _STAY, restartPolicy="ExitCode"))
        for name, number in sizes.items()
    }
    jobs.create("TFJob", "train", **roles)
    names = {
        f"train-{role.lower()}-{index}" for role, size in sizes.items() for index in range(size)
    }
    eventually(lambda: all(jobs.has_printed(name, "cluster") for name in names), "all are at it")
    before, lines = jobs.uids(), jobs.logs(victim)
    jobs.kill(victim)
    eventually(lambda: jobs.attempt(victim) == 2, "it starts again")
    eventually(lambda: jobs.has_printed(victim, "cluster"), "it is at it again")
    after = jobs.uids()
    assert set(before) == set(after) == names
    assert [name for name in names if before[name] != after[name]] == [victim]
    assert jobs.logs(victim) == lines, "it is found where it was, and so are the others"
    jobs.wait("TFJob", "train", "Running")
    assert {pod["status"]["phase"] for pod in jobs.pods().values()} == {"Running"}
    gate.create("end")
    assert jobs.ended("TFJob", "train")["type"] == "Succeeded"
    assert jobs.uids() == after
    restarts = [event for event in jobs.events("train") if event.startswith("ReplicaRestarting: ")]
    assert len(restarts) == 1
    assert f"{victim.removeprefix('train-')} (attempt 1)" in restarts[0], restarts
    assert "137" in restarts[0] and "restart 1 of 6" in restarts[0], restarts


# The worker is killed as soon as both have met. The master dies of that at once, with a permanent
# exit code.
_MEET_AND_DIE = """
import os, socket, sys, time
port = int(os.environ["MASTER_PORT"])
if os.environ["WINDLASS_ATTEMPT"] != "1":
    sys.exit(0)
if os.environ["RANK"] == "0":
    peer, _ = socket.create_server(("", port)).accept()
    peer.recv(1)
    sys.exit(1)
while True:
    try:
        peer = socket.create_connection((os.environ["MASTER_ADDR"], port), timeout=1)
        os._exit(137)
    except OSError:
        time.sleep(0.1)
"""


@pytest.mark.case(4)
def test_a_failure_caused_by_a_killed_peer_does_not_fail_the_job(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    roles = {
        name: jobs.role(1, _MEET_AND_DIE, restartPolicy="ExitCode") for name in ("Master", "Worker")
    }
    jobs.create("PyTorchJob", "train", **roles)
    end = jobs.ended("PyTorchJob", "train")
    assert end["type"] == "Succeeded", end
    assert jobs.attempt("train-master-0") == jobs.attempt("train-worker-0") == 2
    events = [event for event in jobs.events("train") if "restart 1 of 6" in event]
    assert "worker-0 (attempt 1)" in events[0], events


@pytest.mark.case(5)
def test_a_deadline_fires_without_other_events(jobs: Jobs, operator: OperatorProcess) -> None:
    """It stops running pods with any clean policy, also with the default `None`."""
    policy = {"activeDeadlineSeconds": 2}
    jobs.create("TFJob", "train", spec={"runPolicy": policy}, Worker=jobs.role(2, SLEEP))
    end = jobs.ended("TFJob", "train")
    assert (end["type"], end["reason"]) == ("Failed", "DeadlineExceeded")
    jobs.wait_nothing_left()
    jobs.wait_event("train", "DeadlineExceeded: ")
    for name in ("train-worker-0", "train-worker-1"):
        jobs.wait_event("train", "SuccessfulDeletePod: Deleted pod: ", name)
        jobs.wait_event("train", "SuccessfulDeleteService: Deleted service: ", name)


@pytest.mark.case(5)
def test_a_limit_of_0_allows_no_restart(jobs: Jobs, operator: OperatorProcess) -> None:
    """It stops running pods with any clean policy."""
    role = jobs.role(1, leaving(137), restartPolicy="ExitCode")
    limit = {"runPolicy": {"backoffLimit": 0}}
    jobs.create("TFJob", "train", spec=limit, Worker=role, PS=jobs.role(1, SLEEP))
    end = jobs.ended("TFJob", "train")
    assert end["reason"] == "BackoffLimitExceeded"
    jobs.wait_event("train", "BackoffLimitExceeded: ")
    eventually(lambda: list(jobs.pods()) == ["train-worker-0"], "the parameter server ends")
    assert jobs.attempt("train-worker-0") == 1


def test_without_a_leader_the_workers_decide_about_success(
    jobs: Jobs, operator: OperatorProcess, gate: Gate
) -> None:
    """Worker 0 of a TFJob, or all workers; all workers of a PyTorchJob."""
    first_ends = f"""
import os, time
while os.environ["WINDLASS_INDEX"] != "0" and not os.path.exists("{INSIDE}/end"):
    time.sleep(0.05)
"""
    all_workers = {"successPolicy": "AllWorkers"}
    for kind, name, spec in (
        ("TFJob", "first", {}), ("TFJob", "every", all_workers), ("PyTorchJob", "torch", {}),
    ):  # fmt: skip
        jobs.create(kind, name, spec=spec, Worker=gate.equip(jobs.role(2, first_ends)))
    assert jobs.ended("TFJob", "first")["type"] == "Succeeded"
    for kind, name in (("TFJob", "every"), ("PyTorchJob", "torch")):
        jobs.wait_pod(f"{name}-worker-0", _has_succeeded, "has succeeded")
        jobs.wait_running(f"{name}-worker-1")
        assert "Succeeded" not in jobs.conditions(kind, name)
    gate.create("end")
    for kind, name in (("TFJob", "every"), ("PyTorchJob", "torch")):
        assert jobs.ended(kind, name)["type"] == "Succeeded"
        jobs.wait_pod(f"{name}-worker-1", _has_succeeded, "has succeeded")


def _has_succeeded(pod: Object | None) -> bool:
    return pod is not None and pod["status"]["phase"] == "Succeeded"


@pytest.mark.case(6)
def test_a_job_created_suspended_has_no_pods_until_it_is_resumed(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    jobs.create(
        "PyTorchJob", "train", spec={"runPolicy": {"suspend": True}}, Worker=jobs.role(2, SLEEP)
    )
    jobs.wait("PyTorchJob", "train", "Suspended")
    assert not jobs.pods()
    jobs.patch("PyTorchJob", "train", {"spec": {"runPolicy": {"suspend": False}}})
    jobs.wait("PyTorchJob", "train", "Running")
    began = (jobs.get("PyTorchJob", "train") or {})["status"]["startTime"]
    assert "Suspended" not in jobs.conditions("PyTorchJob", "train")
    jobs.patch("PyTorchJob", "train", {"spec": {"runPolicy": {"suspend": True}}})
    jobs.wait("PyTorchJob", "train", "Suspended")
    jobs.wait_nothing_left()
    assert "Running" not in jobs.conditions("PyTorchJob", "train")
    jobs.patch("PyTorchJob", "train", {"spec": {"runPolicy": {"suspend": False}}})
    jobs.wait("PyTorchJob", "train", "Running")
    assert jobs.attempt("train-worker-0") == 2
    assert (jobs.get("PyTorchJob", "train") or {})["status"]["startTime"] > began
    jobs.wait_event("train", "Suspended: ")
    jobs.wait_event("train", "Resumed: ")


@pytest.mark.case(7)
def test_a_job_can_be_scaled(jobs: Jobs, operator: OperatorProcess) -> None:
    role = jobs.role(3, SLEEP)
    jobs.create("TFJob", "train", Chief=jobs.role(1, SLEEP), Worker=role)
    jobs.wait("TFJob", "train", "Running")

    def scale(number: int) -> None:
        change = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": number}}}}
        jobs.patch("TFJob", "train", change)

    def workers() -> list[str]:
        return sorted(name for name in jobs.pods() if "worker" in name)

    kept = (jobs.pod("train-worker-0") or {})["metadata"]["uid"]
    scale(1)
    eventually(lambda: workers() == ["train-worker-0"], "two go")
    eventually(
        lambda: sorted(jobs.services()) == ["train-chief-0", "train-worker-0"], "so do services"
    )
    scale(4)
    eventually(lambda: workers() == [f"train-worker-{index}" for index in range(4)], "three come")
    assert (jobs.pod("train-worker-0") or {})["metadata"]["uid"] == kept
    jobs.wait_running("train-worker-3")


@pytest.mark.case(7)
def test_the_clean_policy_decides_about_pods_of_a_finished_job(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    policies = {
        "unsaid": ({}, ["chief-0", "worker-0"]),
        "none": ({"cleanPodPolicy": "None"}, ["chief-0", "worker-0"]),
        "running": ({"cleanPodPolicy": "Running"}, ["chief-0"]),
        "all": ({"cleanPodPolicy": "All"}, []),
    }
    for name, (policy, _) in policies.items():
        roles = {"Chief": jobs.role(1, PASS), "Worker": jobs.role(1, SLEEP)}
        jobs.create("TFJob", name, spec={"runPolicy": policy}, **roles)
    for name in policies:
        assert jobs.ended("TFJob", name)["type"] == "Succeeded"
    left = sorted(f"{name}-{suffix}" for name, (_, kept) in policies.items() for suffix in kept)
    eventually(lambda: sorted(jobs.pods()) == left, f"{left} are left")
    eventually(lambda: sorted(jobs.services()) == left, f"services of {left} are left")


def test_a_job_is_deleted_after_its_time_to_live(jobs: Jobs, operator: OperatorProcess) -> None:
    policy = {"ttlSecondsAfterFinished": 1}
    jobs.create("TFJob", "train", spec={"runPolicy": policy}, Worker=jobs.role(1, PASS))
    jobs.create("TFJob", "odd", spec={"runPolicy": policy}, Chief=jobs.role(2, PASS))
    eventually(lambda: jobs.get("TFJob", "train") is None, "the job goes")
    eventually(lambda: jobs.get("TFJob", "odd") is None, "so does an object that makes no sense")
    jobs.wait_nothing_left()


@pytest.mark.thorough
def test_a_time_to_live_set_after_the_end_is_applied(jobs: Jobs, operator: OperatorProcess) -> None:
    jobs.create("TFJob", "train", Worker=jobs.role(1, PASS))
    jobs.ended("TFJob", "train")
    eventually(lambda: jobs.is_settled("TFJob", "train"), "nothing is left to do")
    jobs.patch("TFJob", "train", {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 3600}}})
    eventually(lambda: not jobs.is_settled("TFJob", "train"), "it waits for its time to be up")
    assert sorted(jobs.pods()) == ["train-worker-0"]
    jobs.patch("TFJob", "train", {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 1}}})
    eventually(lambda: jobs.get("TFJob", "train") is None, "the job goes")
    jobs.wait_nothing_left()


@pytest.mark.case(8)
def test_a_pod_that_exits_with_0_on_deletion_is_not_done(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    """As when its machine is drained, and it saves its work."""
    program = (
        "import os, signal, sys, time\n"
        "if os.environ['WINDLASS_ATTEMPT'] != '1': sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(2), sys.exit(0)))\n"
        "print('ready')\n"
        "while True: time.sleep(0.1)"
    )
    pod = {"terminationGracePeriodSeconds": 30}
    jobs.create(
        "PyTorchJob", "train", Master=jobs.role(1, program, restartPolicy="ExitCode", pod=pod)
    )
    jobs.wait("PyTorchJob", "train", "Running")
    eventually(lambda: "ready" in jobs.logs("train-master-0"), "it listens to signals")
    jobs.connection.request("DELETE", PODS.path(jobs.namespace, "train-master-0"))
    eventually(lambda: jobs.attempt("train-master-0") == 2, "it starts again")
    assert jobs.ended("PyTorchJob", "train")["type"] == "Succeeded"


@pytest.mark.case(8)
@pytest.mark.thorough
def test_an_evicted_pod_is_retried_under_exit_code(jobs: Jobs, operator: OperatorProcess) -> None:
    """The kubelet evicts a pod that uses more of its node's disk than its limit."""
    fill = (
        "import os, time\n"
        "if os.environ['WINDLASS_ATTEMPT'] == '1':\n"
        "    open('/scratch/full', 'wb').write(b'x' * 8_000_000)\n"
        "    time.sleep(1000)\n"
    )
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    volumes = [{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}]
    role = jobs.role(
        1, fill, restartPolicy="ExitCode",
        container={"volumeMounts": mounts}, pod={"volumes": volumes},
    )  # fmt: skip
    jobs.create("TFJob", "train", Worker=role)
    eventually(
        lambda: jobs.attempt("train-worker-0") == 2, "it is evicted and starts again", patience=180
    )
    assert jobs.ended("TFJob", "train")["type"] == "Succeeded"
    assert any("Evicted" in event for event in jobs.events("train"))


@pytest.mark.case(12)
def test_tf_config_in_pods_names_resolvable_services(jobs: Jobs, operator: OperatorProcess) -> None:
    program = (
        "import json, os, socket, time\n"
        "config = json.loads(os.environ['TF_CONFIG'])\n"
        "for hosts in config['cluster'].values():\n"
        "    for host in hosts:\n"
        "        name, port = host.split(':')\n"
        "        while True:\n"
        "            try: socket.gethostbyname(name); break\n"
        "            except OSError: time.sleep(0.1)\n"
        "print(json.dumps(config))\n"
    )
    roles = {
        "Chief": jobs.role(1, program), "Worker": jobs.role(2, program),
        "PS": jobs.role(2, SLEEP), "Evaluator": jobs.role(1, SLEEP),
    }  # fmt: skip
    jobs.create("TFJob", "train", **roles)
    assert jobs.ended("TFJob", "train")["type"] == "Succeeded"
    config = json.loads(jobs.logs("train-chief-0"))
    assert config["task"] == {"type": "chief", "index": 0}
    assert {role: len(hosts) for role, hosts in config["cluster"].items()} == {
        "chief": 1, "worker": 2, "ps": 2,
    }  # fmt: skip


def test_pytorch_variables_in_pods_replace_those_of_the_template(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    theirs = {"env": [{"name": "WORLD_SIZE", "value": "99"}, {"name": "MINE", "value": "kept"}]}
    roles = {name: jobs.role(1, program, container=theirs) for name in ("Master", "Worker")}
    jobs.create("PyTorchJob", "train", spec={"nprocPerNode": "2"}, **roles)
    assert jobs.ended("PyTorchJob", "train")["type"] == "Succeeded"
    jobs.wait_pod("train-worker-0", _has_succeeded, "has succeeded")
    for rank, role in enumerate(("master", "worker")):
        record = json.loads(jobs.logs(f"train-{role}-0"))
        host = record["MASTER_ADDR"]
        assert host.startswith("train-master-0")
        expected = {
            "MASTER_PORT": "23456", "WORLD_SIZE": "4", "RANK": str(rank), "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": str(rank), "PET_NNODES": "2",
            "PET_NODE_RANK": str(rank), "PET_NPROC_PER_NODE": "2", "PET_MASTER_ADDR": host,
            "PET_MASTER_PORT": "23456", "WINDLASS_ROLE": role, "WINDLASS_INDEX": "0",
            "WINDLASS_ATTEMPT": "1", "PYTHONUNBUFFERED": "1", "MINE": "kept",
        }  # fmt: skip
        assert expected.items() <= record.items()
        assert set(json.loads(record["WINDLASS_HOSTS"])) == {"master", "worker"}


def test_other_containers_of_a_pod_neither_end_a_job_nor_delay_its_end(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    """The exit codes of the replica's container and of the other container, if it ends."""
    cases = {"lasts": (0, None), "well": (0, 3), "badly": (3, 0)}
    for name, (code, other) in cases.items():
        command = ["sleep", "999"] if other is None else ["sh", "-c", f"exit {other}"]
        beside = {"name": "other", "image": jobs._image, "command": command}
        role = jobs.role(1, leaving(code), restartPolicy="ExitCode", beside=[beside])
        policy = {"cleanPodPolicy": "Running" if other is None else "None"}
        jobs.create("PyTorchJob", name, spec={"runPolicy": policy}, Master=role)
    for name, (code, _) in cases.items():
        end = jobs.ended("PyTorchJob", name)
        assert end["type"] == ("Failed" if code else "Succeeded"), end
        assert ("exit code 3" in end["message"]) == (code == 3), end
    assert jobs.attempt("well-master-0") == jobs.attempt("badly-master-0") == 1
    jobs.wait_pod("lasts-master-0", lambda pod: pod is None, "goes, for it still runs")
