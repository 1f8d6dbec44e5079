"""Tests on a real Kubernetes, and the one-node cluster that they run on.

What makes, starts and stops the cluster is in `cluster`; the fixtures of `fixtures.py` work on that
cluster or on any other that `WINDLASS_TEST_KUBECONFIG` names. Nothing in here is faked: pods run.
"""
