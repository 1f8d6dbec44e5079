"""The Kubernetes runtime, which runs replicas in pods.

No Windlass component needs to be installed in the cluster. Each job has one pod per attempt and one
Secret, which owns all of the job's other objects. If a job's replicas communicate, each replica
also has a headless service. A pod runs the agent from the package `worker`. The agent downloads the
code and uploads the same files that a local supervisor writes. The runtime reads an attempt's state
from these files or, if they are missing, from the pod.
"""
