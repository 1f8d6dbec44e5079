"""The Kubernetes runtime, which runs replicas in pods.

The cluster needs no installed component of Windlass. Each job has one Secret, which owns all other
objects of the job, and one pod per attempt. If the replicas of a job communicate, each replica has
a headless service. A pod runs the agent of the package `worker`. The agent downloads the code and
uploads the same files that a local supervisor writes. The runtime reads the state of an attempt
from these files. If they are missing, it reads the state of the pod.
"""
