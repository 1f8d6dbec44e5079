"""Runtimes, which run replicas: on this machine or in pods, behind one protocol.

May import `model`, `frameworks`, `machine`, `kube` and `worker`. A runtime reports observed
replicas and carries out requests. It never decides whether a replica should run, and never
unpickles anything.
"""
