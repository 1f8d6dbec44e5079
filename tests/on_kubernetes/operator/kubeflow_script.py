"""A script for Kubeflow's own client, without Windlass.

`python kubeflow_script.py NAMESPACE IMAGE KIND` prints its results as JSON.
"""

import json
import sys
import time


def main():
    from kubeflow.training import (
        KubeflowOrgV1PyTorchJob,
        KubeflowOrgV1PyTorchJobSpec,
        KubeflowOrgV1ReplicaSpec,
        KubeflowOrgV1RunPolicy,
        KubeflowOrgV1TFJob,
        KubeflowOrgV1TFJobSpec,
        TrainingClient,
    )
    from kubernetes import client

    namespace, image, kind = sys.argv[1:4]
    is_torch = kind == "PyTorchJob"
    program = "import os; print('rank', os.environ.get('RANK', '?'), 'done')"

    def replica(number):
        container = client.V1Container(
            name="pytorch" if is_torch else "tensorflow",
            image=image,
            command=["python3", "-u", "-c", program],
        )
        spec = client.V1PodSpec(containers=[container])
        return KubeflowOrgV1ReplicaSpec(
            replicas=number,
            restart_policy="Never",
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(annotations={"sidecar.istio.io/inject": "false"}),
                spec=spec,
            ),
        )

    def job(name, manager):
        metadata = client.V1ObjectMeta(name=name, namespace=namespace)
        policy = KubeflowOrgV1RunPolicy(clean_pod_policy="None", managed_by=manager)
        if is_torch:
            return KubeflowOrgV1PyTorchJob(
                api_version="kubeflow.org/v1", kind=kind, metadata=metadata,
                spec=KubeflowOrgV1PyTorchJobSpec(
                    run_policy=policy,
                    pytorch_replica_specs={"Master": replica(1), "Worker": replica(2)},
                ),
            )  # fmt: skip
        return KubeflowOrgV1TFJob(
            api_version="kubeflow.org/v1", kind=kind, metadata=metadata,
            spec=KubeflowOrgV1TFJobSpec(
                run_policy=policy, tf_replica_specs={"Chief": replica(1), "Worker": replica(2)}
            ),
        )  # fmt: skip

    training = TrainingClient(namespace=namespace, job_kind=kind)
    training.create_job(job("elsewhere", "kueue.x-k8s.io/multikueue"), namespace=namespace)
    refusal = ""
    try:
        training.create_job(job("unknown", "kueue.x-k8s.io/other"), namespace=namespace)
    except RuntimeError as error:
        refusal = f"{error}: {error.__cause__ or error.__context__}"
    training.create_job(job("mnist", "kubeflow.org/training-operator"), namespace=namespace)
    done = training.wait_for_job_conditions("mnist", wait_timeout=120, polling_interval=1)
    # The job succeeds with its leader. The other replicas run to their ends.
    while any(pod.status.phase != "Succeeded" for pod in training.get_job_pods("mnist")):
        time.sleep(0.2)
    logs, events = training.get_job_logs("mnist", verbose=True)
    all_logs, _ = training.get_job_logs("mnist", is_master=False)
    seen = {
        "succeeded": training.is_job_succeeded("mnist"),
        "failed": training.is_job_failed("mnist"),
        "created": training.is_job_created("mnist"),
        "conditions": [condition.type for condition in training.get_job_conditions("mnist")],
        "completion": str(done.status.completion_time),
        "pods": sorted(training.get_job_pod_names("mnist")),
        "workers": sorted(training.get_job_pod_names("mnist", replica_type="worker")),
        "logs": logs,
        "all_logs": all_logs,
        "events": sorted(events),
        "jobs": sorted(job.metadata.name for job in training.list_jobs()),
        "elsewhere": str(training.get_job("elsewhere").status),
        "refusal": refusal,
    }
    for name in seen["jobs"]:
        training.delete_job(name)
    print("SEEN " + json.dumps(seen))


if __name__ == "__main__":
    main()
