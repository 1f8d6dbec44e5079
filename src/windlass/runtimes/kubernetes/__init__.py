"""Replicas in the pods of a Kubernetes cluster. Nothing needs to be installed there.

Of a job there is one Secret, which owns all the rest, and a pod for each attempt; where replicas
meet each other, a headless service for each of them. What runs in a pod is the agent of `worker`,
which brings the code there and what was reported back: into the same files that a local supervisor
writes. So an attempt is known by these files, and where they say nothing, by its pod.
"""
