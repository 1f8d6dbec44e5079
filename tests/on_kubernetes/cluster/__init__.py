"""A real one-node Kubernetes on this machine, as `make kube` and `make kube-down` have it.

Everything of it lives in namespaces of its own (processes, network, mounts), whose first process
holds them: when that one is killed, all is gone, whatever state it was in. What is built is kept in
a cache outside the tree. Imports nothing of Windlass; Debian 12 and root are needed.
"""
