"""Jobs on real pods: how they end, start again, stop, and what is left of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import eventually
from kube.access import Cluster
from kube.gates import INSIDE, Gate
from kube.operating import Jobs, OperatorProcess, operating
from kube.pods import Namespace
from windlass.kube.kinds import PODS
from windlass.operator.jobkinds import BY_NAME

MERGE = "application/merge-patch+json"
SLEEP = "import time; time.sleep(1000)"
PASS = "pass"


def leaving(code: int) -> str:
    return f"import sys; sys.exit({code})"


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob"])
def test_a_job_runs_and_succeeds(jobs: Jobs, operator: OperatorProcess, kind: str) -> None:
    leader = "Chief" if kind == "TFJob" else "Master"
    roles = {leader: jobs.role(1, "print('hello')"), "Worker": jobs.role(2, PASS)}
    jobs.create(kind, "train", **roles)
    assert jobs.ended(kind, "train")["type"] == "Succeeded"
    status = (jobs.get(kind, "train") or {})["status"]
    assert {"startTime", "completionTime", "lastReconcileTime"} <= set(status)
    assert status["conditions"][-1]["type"] == "Succeeded"
    assert status["replicaStatuses"][leader]["succeeded"] == 1
    names = [f"train-{leader.lower()}-0", "train-worker-0", "train-worker-1"]
    assert sorted(jobs.pods()) == sorted(jobs.services()) == sorted(names)
    assert jobs.logs(names[0]) == "hello\n"
    eventually(
        lambda: any(each.startswith("Completed: ") for each in jobs.events("train")), "it is told"
    )
    told = jobs.events("train")
    assert any(each.startswith("SuccessfulCreatePod: Created pod: ") for each in told)
    assert any(each.startswith("SuccessfulCreateService: ") for each in told)
    metrics = operator.ask("/metrics")[1]
    labels = f'{{namespace="{jobs.namespace}",kind="{kind}"}}'
    assert f"windlass_operator_jobs_created_total{labels} 1" in metrics
    assert f"windlass_operator_jobs_succeeded_total{labels} 1" in metrics


@pytest.mark.case(2)
@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
@pytest.mark.parametrize("code", [0, 1])
def test_a_restart_policy_on_real_pods(
    jobs: Jobs, operator: OperatorProcess, policy: str, code: int
) -> None:
    role = jobs.role(1, leaving(code), restartPolicy=policy)
    jobs.create("TFJob", "train", spec={"runPolicy": {"backoffLimit": 1}}, Worker=role)
    end = jobs.ended("TFJob", "train")
    is_restarted = policy == "Always" or (policy == "OnFailure" and code)
    if policy != "Always" and code == 0:
        assert end["type"] == "Succeeded"
    else:
        reason = "BackoffLimitExceeded" if is_restarted else "ReplicaFailed"
        assert (end["type"], end["reason"]) == ("Failed", reason), end
    assert jobs.attempt("train-worker-0") == (2 if is_restarted else 1)


@pytest.mark.case(2)
@pytest.mark.parametrize("code", [1, 127, 128, 130, 137, 143, 255])
def test_an_exit_code_on_real_pods(jobs: Jobs, operator: OperatorProcess, code: int) -> None:
    role = jobs.role(1, leaving(code), restartPolicy="ExitCode")
    jobs.create("PyTorchJob", "train", spec={"runPolicy": {"backoffLimit": 1}}, Master=role)
    end = jobs.ended("PyTorchJob", "train")
    is_retried = code >= 128
    reason = "BackoffLimitExceeded" if is_retried else "ReplicaFailed"
    assert (end["type"], end["reason"]) == ("Failed", reason), end
    assert f"exit code {code}" in end["message"]
    assert jobs.attempt("train-master-0") == (2 if is_retried else 1)


def test_a_failure_is_told_with_the_last_lines(jobs: Jobs, operator: OperatorProcess) -> None:
    role = jobs.role(1, "print('reading'); raise ValueError('no data')")
    jobs.create("TFJob", "train", Chief=role, Worker=jobs.role(1, SLEEP))
    message = jobs.ended("TFJob", "train")["message"]
    assert "chief-0 (attempt 1) failed with exit code 1" in message
    assert "ValueError: no data" in message


# Says how others find it, and stays until it is told to end.
_STAY = f"""
import os, time
print(os.environ["TF_CONFIG"])
while not os.path.exists("{INSIDE}/end"):
    time.sleep(0.05)
"""


@pytest.mark.case(3)
@pytest.mark.parametrize("victim", ["train-chief-0", "train-worker-0"])
def test_one_killed_in_mid_run_starts_again_under_its_name_and_the_others_run_on(
    own_cluster: Cluster, jobs: Jobs, operator: OperatorProcess, gate: Gate, victim: str
) -> None:
    roles = {
        name: gate.equip(jobs.role(number, _STAY, restartPolicy="ExitCode"))
        for name, number in (("Chief", 1), ("Worker", 2))
    }
    jobs.create("TFJob", "train", **roles)
    names = {"train-chief-0", "train-worker-0", "train-worker-1"}
    eventually(lambda: all(jobs.says(name, "cluster") for name in names), "all are at it")
    before, told = jobs.uids(), jobs.logs(victim)
    jobs.kill(victim)
    eventually(lambda: jobs.attempt(victim) == 2, "it starts again")
    eventually(lambda: jobs.says(victim, "cluster"), "it is at it again")
    after = jobs.uids()
    assert set(before) == set(after) == names
    assert [name for name in names if before[name] != after[name]] == [victim]
    assert jobs.logs(victim) == told, "it is found where it was, and so are the others"
    jobs.wait("TFJob", "train", "Running")
    assert {pod["status"]["phase"] for pod in jobs.pods().values()} == {"Running"}
    gate.tell("end")
    assert jobs.ended("TFJob", "train")["type"] == "Succeeded"
    assert jobs.uids() == after
    restarts = [each for each in jobs.events("train") if each.startswith("ReplicaRestarting: ")]
    assert len(restarts) == 1
    assert f"{victim.removeprefix('train-')} (attempt 1)" in restarts[0], restarts
    assert "137" in restarts[0] and "restart 1 of 6" in restarts[0], restarts


# The worker is killed as soon as they have met; the master dies of that at once, with a code that
# is for good.
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
def test_a_peer_that_died_of_a_killed_one_does_not_fail_the_job(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    roles = {
        name: jobs.role(1, _MEET_AND_DIE, restartPolicy="ExitCode") for name in ("Master", "Worker")
    }
    jobs.create("PyTorchJob", "train", **roles)
    end = jobs.ended("PyTorchJob", "train")
    assert end["type"] == "Succeeded", end
    assert jobs.attempt("train-master-0") == jobs.attempt("train-worker-0") == 2
    told = [each for each in jobs.events("train") if "restart 1 of 6" in each]
    assert "worker-0 (attempt 1)" in told[0], told


@pytest.mark.case(5)
def test_a_deadline_fires_alone(jobs: Jobs, operator: OperatorProcess) -> None:
    """Whatever the clean policy, which is `None` where nothing is said: it ends what runs."""
    policy = {"activeDeadlineSeconds": 2}
    jobs.create("TFJob", "train", spec={"runPolicy": policy}, Worker=jobs.role(2, SLEEP))
    end = jobs.ended("TFJob", "train")
    assert (end["type"], end["reason"]) == ("Failed", "DeadlineExceeded")
    jobs.wait_nothing_left()


@pytest.mark.case(5)
def test_a_limit_of_0_is_no_restart(jobs: Jobs, operator: OperatorProcess) -> None:
    role = jobs.role(1, leaving(137), restartPolicy="ExitCode")
    jobs.create("TFJob", "train", spec={"runPolicy": {"backoffLimit": 0}}, Worker=role)
    end = jobs.ended("TFJob", "train")
    assert end["reason"] == "BackoffLimitExceeded"
    assert jobs.attempt("train-worker-0") == 1


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


@pytest.mark.case(7)
def test_a_job_is_scaled(jobs: Jobs, operator: OperatorProcess) -> None:
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
@pytest.mark.parametrize(
    ("policy", "left"),
    [
        (None, ["train-chief-0", "train-worker-0"]),
        ("None", ["train-chief-0", "train-worker-0"]),
        ("Running", ["train-chief-0"]),
        ("All", []),
    ],
)
def test_what_is_left_of_a_job_that_is_over(
    jobs: Jobs, operator: OperatorProcess, policy: str | None, left: list[str]
) -> None:
    spec = {"runPolicy": {"cleanPodPolicy": policy}} if policy else {}
    jobs.create("TFJob", "train", spec=spec, Chief=jobs.role(1, PASS), Worker=jobs.role(1, SLEEP))
    assert jobs.ended("TFJob", "train")["type"] == "Succeeded"
    eventually(lambda: sorted(jobs.pods()) == left, f"{left} are left")
    eventually(lambda: sorted(jobs.services()) == left, f"services of {left} are left")


def test_a_job_whose_time_to_live_is_up_goes_itself(jobs: Jobs, operator: OperatorProcess) -> None:
    policy = {"ttlSecondsAfterFinished": 1}
    jobs.create("TFJob", "train", spec={"runPolicy": policy}, Worker=jobs.role(1, PASS))
    jobs.ended("TFJob", "train")
    eventually(lambda: jobs.get("TFJob", "train") is None, "the job goes")
    jobs.wait_nothing_left()


@pytest.mark.case(8)
def test_a_pod_that_leaves_with_0_when_it_is_taken_away_is_not_done(
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
def test_an_evicted_pod_is_retried_under_exit_code(jobs: Jobs, operator: OperatorProcess) -> None:
    """The kubelet evicts a pod that fills more of its node's disk than it said it would."""
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
    assert any("Evicted" in each for each in jobs.events("train"))


@pytest.mark.case(9)
def test_a_deleted_pod_comes_back(jobs: Jobs, operator: OperatorProcess) -> None:
    jobs.create("TFJob", "train", Worker=jobs.role(2, SLEEP))
    jobs.wait("TFJob", "train", "Running")
    jobs.connection.request(
        "DELETE", f"/api/v1/namespaces/{jobs.namespace}/pods/train-worker-1", {}
    )
    eventually(lambda: jobs.attempt("train-worker-1") == 2, "it comes back")
    jobs.wait("TFJob", "train", "Running")
    jobs.connection.request(
        "DELETE", f"/api/v1/namespaces/{jobs.namespace}/services/train-worker-0", {}
    )
    eventually(lambda: "train-worker-0" in jobs.services(), "and so does a service")


@pytest.mark.case(9)
def test_an_orphan_is_adopted_and_a_foreign_pod_is_left_alone(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    made = jobs.create("TFJob", "train", Worker=jobs.role(2, SLEEP))
    jobs.wait("TFJob", "train", "Running")
    before = (jobs.pod("train-worker-0") or {})["metadata"]["uid"]
    path = f"/api/v1/namespaces/{jobs.namespace}/pods"

    def own(name: str, owners: Any) -> None:
        jobs.connection.request(
            "PATCH", f"{path}/{name}", {"metadata": {"ownerReferences": owners}},
            content_type=MERGE,
        )  # fmt: skip

    own("train-worker-0", None)
    eventually(lambda: _owner(jobs, "train-worker-0") == made["metadata"]["uid"], "it is adopted")
    assert (jobs.pod("train-worker-0") or {})["metadata"]["uid"] == before
    other = {
        "apiVersion": "v1", "kind": "Pod", "name": "train-worker-0", "uid": before,
        "controller": True,
    }  # fmt: skip
    labels = {
        **(jobs.pod("train-worker-0") or {})["metadata"]["labels"],
        "training.kubeflow.org/replica-index": "7",
    }
    body = {
        "metadata": {"name": "foreign", "labels": labels, "ownerReferences": [other]},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": "tensorflow", "image": jobs._image, "command": ["sleep", "999"]}
            ],
        },
    }
    foreign = jobs.connection.request("POST", path, body)
    jobs.patch("TFJob", "train", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}})
    eventually(lambda: "train-worker-1" not in jobs.pods(), "the job is looked at")
    assert (jobs.pod("foreign") or {})["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert _owner(jobs, "foreign") == before


@pytest.mark.case(9)
@pytest.mark.parametrize("label", ["another", None], ids=["of another job", "of none"])
def test_a_pod_that_has_not_the_jobs_labels_any_more_is_let_go(
    jobs: Jobs, operator: OperatorProcess, label: str | None
) -> None:
    jobs.create("TFJob", "train", Worker=jobs.role(2, SLEEP))
    jobs.wait("TFJob", "train", "Running")
    before = jobs.uids()
    path = PODS.path(jobs.namespace, "train-worker-1")
    change = {"metadata": {"labels": {"training.kubeflow.org/job-name": label}}}
    jobs.connection.request("PATCH", path, change, content_type=MERGE)
    told = "ReleasedPod: Released pod: train-worker-1"
    eventually(lambda: told in jobs.events("train"), "it is told")
    # It has the name that the job's own needs: that is told as well, and waited for.
    eventually(
        lambda: any("train-worker-1 in namespace" in each for each in jobs.events("train")),
        "it is told what is in the way",
    )
    released = jobs.pod("train-worker-1") or {}
    assert released["metadata"]["uid"] == before["train-worker-1"]
    assert "ownerReferences" not in released["metadata"]
    assert "deletionTimestamp" not in released["metadata"]
    jobs.connection.request("DELETE", path, {})
    eventually(lambda: jobs.attempt("train-worker-1") == 2, "the job's own comes")
    jobs.wait("TFJob", "train", "Running")
    assert jobs.uids()["train-worker-0"] == before["train-worker-0"]


@pytest.mark.case(9)
def test_an_orphan_is_not_given_to_a_job_that_is_gone_though_another_has_its_name(
    cluster: Cluster, jobs: Jobs, tmp_path: Path
) -> None:
    """An owner that is not there would have the pod removed."""
    words = ("--namespace", jobs.namespace, "--alone")
    with operating(cluster, *words, rig=f"hold:GET:train:{tmp_path}"):
        jobs.create("TFJob", "train", Worker=jobs.role(2, SLEEP))
        jobs.wait("TFJob", "train", "Running")
        uid = jobs.uids()["train-worker-0"]
        path = PODS.path(jobs.namespace, "train-worker-0")
        orphan = {"metadata": {"ownerReferences": None}}
        jobs.connection.request("PATCH", path, orphan, content_type=MERGE)
        # It is about to be adopted: whose it is is looked at once more.
        eventually((tmp_path / "held").exists, "the job is looked at")
        jobs.delete("TFJob", "train")
        eventually(lambda: jobs.get("TFJob", "train") is None, "it is gone")
        theirs = {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}
        jobs.create("TFJob", "train", spec=theirs, Worker=jobs.role(2, SLEEP))
        (tmp_path / "go").touch()
        eventually((tmp_path / "done").exists, "it is seen")
        jobs.create("TFJob", "next", Worker=jobs.role(1, PASS))
        assert jobs.ended("TFJob", "next")["type"] == "Succeeded"
        eventually(lambda: "train-worker-1" not in jobs.pods(), "what it owned goes with it")
        pod = jobs.pod("train-worker-0") or {}
        assert pod["metadata"]["uid"] == uid
        assert "ownerReferences" not in pod["metadata"]
        assert not any("Adopted" in each for each in jobs.events("train"))


def test_a_pod_that_a_quota_leaves_no_room_for_is_told_and_comes_when_there_is(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    quotas = f"/api/v1/namespaces/{jobs.namespace}/resourcequotas"
    few = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    jobs.connection.request("POST", quotas, few)
    eventually(
        lambda: "hard" in jobs.connection.request("GET", f"{quotas}/few")["status"],
        "it is in force",
    )
    jobs.create("TFJob", "train", Chief=jobs.role(1, SLEEP), Worker=jobs.role(1, PASS))

    def failures() -> list[str]:
        return [each for each in jobs.events("train") if each.startswith("CreateFailed: ")]

    eventually(lambda: bool(failures()), "it is told")
    assert "worker-0" in failures()[0], failures()
    assert "The quota few of the namespace has no room" in failures()[0], failures()
    assert list(jobs.pods()) == ["train-chief-0"]
    assert "Failed" not in jobs.conditions("TFJob", "train")
    change = {"spec": {"hard": {"pods": "2"}}}
    jobs.connection.request("PATCH", f"{quotas}/few", change, content_type=MERGE)
    jobs.wait_pod("train-worker-0", lambda pod: pod is not None, "comes")
    assert jobs.attempt("train-worker-0") == jobs.attempt("train-chief-0") == 1


def test_a_status_that_another_writes_at_the_same_time_is_written_again(
    cluster: Cluster, jobs: Jobs, tmp_path: Path
) -> None:
    words = ("--namespace", jobs.namespace, "--alone")
    with operating(cluster, *words, rig=f"hold:PUT:status:{tmp_path}") as process:
        jobs.create("TFJob", "train", Worker=jobs.role(1, SLEEP))
        eventually((tmp_path / "held").exists, "its status is about to be written")
        # By another's hand: a part that is not the operator's, and the status itself.
        jobs.patch("TFJob", "train", {"metadata": {"labels": {"team": "vision"}}})
        theirs = {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
        path = BY_NAME["TFJob"].kind.path(jobs.namespace, "train", "status")
        jobs.connection.request("PATCH", path, theirs, content_type=MERGE)
        (tmp_path / "go").touch()
        jobs.wait("TFJob", "train", "Running")
        assert not (tmp_path / "done").exists(), "the first was refused"
        assert set(jobs.conditions("TFJob", "train")) == {"Created", "Running"}
        thing = jobs.get("TFJob", "train") or {}
        assert thing["metadata"]["labels"] == {"team": "vision"}
        assert "Traceback" not in process.output
        assert "somebody else wrote" not in process.output


@pytest.mark.case(9)
def test_a_pod_of_somebody_elses_is_never_taken_for_a_replica(
    jobs: Jobs, operator: OperatorProcess, namespace: Namespace
) -> None:
    namespace.pod("train-worker-0", "sleep", "999")
    jobs.create("TFJob", "train", Worker=jobs.role(1, PASS))
    eventually(
        lambda: any("is there already" in each for each in jobs.events("train")), "it is told"
    )
    assert "ownerReferences" not in (jobs.pod("train-worker-0") or {})["metadata"]
    namespace.core.delete_namespaced_pod("train-worker-0", namespace.name)
    assert jobs.ended("TFJob", "train")["type"] == "Succeeded"


@pytest.mark.case(9)
@pytest.mark.parametrize(
    ("attempt", "stays", "goes"),
    [("1", "train-worker-0", "copy"), ("2", "copy", "train-worker-0")],
    ids=["of the same attempt", "of a newer attempt"],
)
@pytest.mark.parametrize("is_owned", [True, False], ids=["owned", "orphan"])
def test_of_two_pods_of_a_replica_one_goes(
    jobs: Jobs, operator: OperatorProcess, attempt: str, stays: str, goes: str, is_owned: bool
) -> None:
    made = jobs.create("TFJob", "train", Worker=jobs.role(2, SLEEP))
    jobs.wait("TFJob", "train", "Running")
    pod = jobs.pod("train-worker-0") or {}
    metadata = pod["metadata"]
    copy = {
        "metadata": {
            "name": "copy",
            "labels": {**metadata["labels"], "windlass.dev/attempt": attempt},
            "ownerReferences": metadata["ownerReferences"] if is_owned else [],
        },
        "spec": {**pod["spec"], "nodeName": None, "volumes": None},
    }
    copy["spec"]["containers"] = [{**pod["spec"]["containers"][0], "volumeMounts": None}]
    second = jobs.connection.request("POST", f"/api/v1/namespaces/{jobs.namespace}/pods", copy)
    uids = {"train-worker-0": metadata["uid"], "copy": second["metadata"]["uid"]}

    def is_one_left() -> bool:
        there = {name: each["metadata"]["uid"] for name, each in jobs.pods().items()}
        return there.get(stays) == uids[stays] and there.get(goes) != uids[goes]

    eventually(is_one_left, f"{goes} goes and {stays} stays")
    jobs.wait_running(stays)
    assert _owner(jobs, stays) == made["metadata"]["uid"]
    assert (jobs.get("TFJob", "train") or {})["status"]["replicaStatuses"]["Worker"]["active"] == 2
    told = jobs.events("train")
    assert not any("Restarting" in each or "Failed" in each for each in told), told
    assert sorted(jobs.pods()) == sorted([stays, "train-worker-1"])


@pytest.mark.case(11)
def test_a_job_deleted_while_its_pods_start_leaves_nothing(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    for number in range(5):
        jobs.create("TFJob", f"train-{number}", Worker=jobs.role(3, SLEEP))
    eventually(lambda: len(jobs.pods()) > 0, "pods start")
    for number in range(5):
        jobs.delete("TFJob", f"train-{number}")
    jobs.wait_nothing_left()
    # One of the same name waits for the names of the pods before it, and is none of theirs.
    jobs.create("TFJob", "train-0", Worker=jobs.role(3, PASS))
    assert jobs.ended("TFJob", "train-0")["type"] == "Succeeded"


def test_a_job_of_the_same_name_follows_at_once(jobs: Jobs, operator: OperatorProcess) -> None:
    jobs.create("TFJob", "train", Worker=jobs.role(2, SLEEP))
    jobs.wait("TFJob", "train", "Running")
    jobs.delete("TFJob", "train")
    jobs.create("TFJob", "train", Worker=jobs.role(2, PASS))
    assert jobs.ended("TFJob", "train")["type"] == "Succeeded"


@pytest.mark.case(12)
def test_tf_config_in_pods_names_services_that_are_found(
    jobs: Jobs, operator: OperatorProcess
) -> None:
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


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"containers": []}, "there is none; one must be named 'tensorflow'"),
        ({"containers": [{"name": "main", "image": "x"}]}, "none is named 'tensorflow'"),
    ],
)
def test_an_object_that_makes_no_sense_has_failed_with_what_and_where(
    jobs: Jobs, operator: OperatorProcess, change: dict[str, Any], told: str
) -> None:
    role = {"replicas": 1, "template": {"spec": change}}
    body = {
        "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "train"},
        "spec": {"tfReplicaSpecs": {"Worker": role}},
    }  # fmt: skip
    path = f"/apis/kubeflow.org/v1/namespaces/{jobs.namespace}/tfjobs"
    jobs.connection.request("POST", path, body)
    end = jobs.ended("TFJob", "train")
    assert (end["type"], end["reason"]) == ("Failed", "InvalidSpec")
    assert "spec.tfReplicaSpecs.Worker.template.spec.containers" in end["message"]
    assert told in end["message"]
    assert not jobs.pods()


def test_two_chiefs_and_long_names_are_refused(jobs: Jobs, operator: OperatorProcess) -> None:
    jobs.create("TFJob", "two", Chief=jobs.role(2, PASS))
    assert "has one chief; there are 2" in jobs.ended("TFJob", "two")["message"]
    name = "x" * 60
    jobs.create("TFJob", name, Chief=jobs.role(1, PASS))
    assert "is too long" in jobs.ended("TFJob", name)["message"]


def test_a_job_that_another_manages_is_left_alone(jobs: Jobs, operator: OperatorProcess) -> None:
    managed = {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}
    jobs.create("TFJob", "theirs", spec=managed, Worker=jobs.role(1, PASS))
    jobs.create("TFJob", "ours", Worker=jobs.role(1, PASS))
    jobs.ended("TFJob", "ours")
    theirs = jobs.get("TFJob", "theirs") or {}
    assert not theirs.get("status")
    assert "annotations" not in theirs["metadata"]
    assert "theirs-worker-0" not in jobs.pods()


def test_a_sidecar_does_not_keep_a_job_from_its_end(jobs: Jobs, operator: OperatorProcess) -> None:
    beside = {"name": "proxy", "image": jobs._image, "command": ["sleep", "999"]}
    role = jobs.role(1, PASS, beside=[beside])
    policy = {"cleanPodPolicy": "Running"}
    jobs.create("PyTorchJob", "train", spec={"runPolicy": policy}, Master=role)
    assert jobs.ended("PyTorchJob", "train")["type"] == "Succeeded"
    eventually(lambda: not jobs.pods(), "what still runs ends")


def _owner(jobs: Jobs, name: str) -> str:
    owners = (jobs.pod(name) or {})["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("uid", ""))
