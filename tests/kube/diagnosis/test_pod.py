"""Reasons why pods do not run, from the responses of a real cluster.

`recorded_pods/` contains responses of Kubernetes 1.20 with containerd about the pods of
tests/on_kubernetes/kube/broken_pods.py. That file explains how to record them again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windlass.kube.diagnosis.pod import explain
from windlass.kube.explanation import Explanation

RECORDED_PODS = Path(__file__).parent / "recorded_pods"
NOW = 2e9
REGISTRY = "127.0.0.1:47199/lab"

EXPLANATIONS = {
    "claim-missing": ("VolumeMissing", "There is no volume claim data in namespace lab."),
    "evicted": (
        "Evicted",
        'Its machine evicted it: Usage of EmptyDir volume "volume" exceeds the limit "1Mi".',
    ),
    "image-busy": ("RegistryBusy", f"The registry of {REGISTRY}/busy:7 limits the rate of pulls."),
    "image-denied": (
        "ImageDenied",
        f"The registry has no image {REGISTRY}/denied:7, or requires a password for it.",
    ),
    "image-missing": ("ImageMissing", f"There is no image {REGISTRY}/missing:8."),
    "image-misspelt": ("ImageNameInvalid", "'lab/TRAIN:7' is not a valid image name."),
    "image-never-pulled": (
        "ImageMissing",
        "Its machine does not have the image windlass/none:1, and imagePullPolicy forbids "
        "pulling it.",
    ),
    "image-of-another-machine": (
        "WrongArchitecture",
        f"The image {REGISTRY}/arm:7 is not built for the processor architecture of its machine.",
    ),
    "image-private": (
        "ImageDenied",
        f"The registry has no image {REGISTRY}/private:7, or requires a password for it.",
    ),
    "key-missing": ("KeyMissing", "The secret there has no key password."),
    "map-missing": ("ConfigMapMissing", "There is no config map settings in namespace lab."),
    "map-volume-missing": ("ConfigMapMissing", "There is no config map settings in namespace lab."),
    "no-file": ("NoProgram", "The image windlass-worker:test has no /opt/no/such/program."),
    "no-python": (
        "NoPython",
        "The image windlass-worker:test has no python9, which Windlass needs to start programs.",
    ),
    "no-such-node": (
        "NoSuchNode",
        "The only machine is without the requested labels (disk=no-such-disk).",
    ),
    "no-such-nodes": (
        "NoSuchNode",
        "The only machine is without the requested labels (disk In ssd|nvme).",
    ),
    "not-executable": (
        "NotExecutable",
        "/etc/passwd in the image windlass-worker:test is not executable.",
    ),
    "of-another-machine": (
        "WrongArchitecture",
        "The image windlass-worker:test is built for another processor architecture than that "
        "of its machine.",
    ),
    "out-of-memory": (
        "OutOfMemory",
        "It used more than the 67.1 MB of memory that it may use and was killed.",
    ),
    "pull-secret-missing": (
        "ImageDenied",
        f"The registry has no image {REGISTRY}/private:7, or denies access to robot.",
    ),
    "registry-silent": (
        "RegistryUnreachable",
        "The registry of 127.0.0.1:9/lab/train:7 does not answer the cluster's machines.",
    ),
    "registry-unknown": (
        "RegistryUnknown",
        "The registry of registry.invalid/lab/train:7 cannot be found from the cluster: its "
        "name is unknown there.",
    ),
    "runs-as-root": (
        "RunsAsRoot",
        "The image windlass-worker:test runs as root, which is not allowed for this pod.",
    ),
    "secret-missing": ("SecretMissing", "There is no secret db in namespace lab."),
    "secret-volume-missing": ("SecretMissing", "There is no secret db in namespace lab."),
    "set-aside": (
        "TaintNotTolerated",
        "No machine takes it: 1 of 2 machines is tainted (dedicated=ml); 1 of 2 machines is "
        "without the requested labels (windlass-test=lab).",
    ),
    "too-late": ("DeadlineExceeded", "It ran longer than its pod's deadline."),
    "too-many-cpus": ("Unschedulable", "The only machine has less than 1000 CPUs free."),
    "too-many-gpus": ("Unschedulable", "The only machine has less than 4 GPUs free."),
    "too-many-tpus": ("Unschedulable", "The only machine has less than 4 TPU chips free."),
    "too-much-memory": ("Unschedulable", "The only machine has less than 1.1 PB of memory free."),
}


def recorded_pod(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((RECORDED_PODS / f"{name}.json").read_text())
    return record


def explained(seen: dict[str, Any]) -> Explanation:
    explanation = explain(seen["pod"], seen["events"], NOW, log=seen["log"])
    assert explanation is not None
    return explanation


def test_every_recording_has_an_explanation() -> None:
    assert sorted(EXPLANATIONS) == sorted(path.stem for path in RECORDED_PODS.glob("*.json"))


@pytest.mark.parametrize("name", sorted(EXPLANATIONS))
def test_the_explanation_is_in_terms_of_the_user(name: str) -> None:
    explanation = explained(recorded_pod(name))
    assert (explanation.reason, explanation.sentence) == EXPLANATIONS[name]
    assert explanation.remedy or name == "too-late"


def test_during_the_backoff_of_a_pull_its_reason_is_still_shown() -> None:
    seen = recorded_pod("image-missing")
    [status] = seen["pod"]["status"]["containerStatuses"]
    message = 'Back-off pulling image "127.0.0.1:47199/lab/missing:8"'
    status["state"] = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
    assert explained(seen).reason == "ImageMissing"
    # Newer kubelets have the reason in the status, so that no event is needed.
    why = next(e["message"] for e in seen["events"] if e["message"].startswith("Failed to pull"))
    why = why.partition(": ")[2]
    status["state"]["waiting"]["message"] = f"{message}: ErrImagePull: {why}"
    assert explained({**seen, "events": []}).reason == "ImageMissing"


def test_a_missing_pull_secret_is_named_if_the_cluster_reports_it() -> None:
    """As kubelets do since 1.29."""
    seen = recorded_pod("pull-secret-missing")
    event = {
        "reason": "FailedToRetrieveImagePullSecret",
        "message": "Unable to retrieve some image pull secrets (robot); attempting to pull the "
        "image may not succeed.",
    }
    explanation = explained({**seen, "events": [*seen["events"], event]})
    assert explanation.reason == "PullSecretMissing"
    assert "There is no secret robot in namespace lab" in explanation.sentence


def test_a_running_or_successful_pod_has_no_explanation() -> None:
    for phase in ("Running", "Succeeded"):
        assert explain({"status": {"phase": phase}}, [], NOW) is None


def test_a_program_that_failed_by_itself_has_no_explanation() -> None:
    state = {"terminated": {"exitCode": 1, "reason": "Error"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": state}]}
    log = "Traceback (most recent call last):\nValueError: lr is negative\n"
    assert explain({"status": status}, [], NOW, log=log) is None
