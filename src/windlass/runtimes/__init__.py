"""Runtimes, which start and stop replicas on this machine or in Kubernetes pods.

Every runtime implements the protocol in `base.py`. This package may import `model`, `frameworks`,
`machine`, `kube` and `worker`. A runtime reports the state of replicas and carries out requests. It
never decides whether a replica should run and never unpickles anything.
"""
