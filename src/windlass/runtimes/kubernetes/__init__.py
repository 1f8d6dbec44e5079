"""Replicas in the pods of a Kubernetes cluster. Nothing needs to be installed there.

A job has one Secret, which owns all its other objects, and a pod for each attempt. If its replicas
communicate, each has a headless service. A pod runs the agent of `worker`, which downloads the code
and uploads the results into the same files that a local supervisor writes. These files describe an
attempt, and its pod does where the files are missing.
"""
