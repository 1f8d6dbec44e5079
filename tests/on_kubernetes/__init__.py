"""Tests on a real Kubernetes, and the one-node cluster that they run on.

`cluster` creates, starts and stops the cluster. The fixtures of `fixtures.py` work on that cluster
or on any other that `WINDLASS_TEST_KUBECONFIG` names. Nothing here is faked: pods run.
"""
