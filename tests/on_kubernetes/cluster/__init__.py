"""A real one-node Kubernetes on this machine, for `make kube` and `make kube-down`.

The cluster lives in its own namespaces (processes, network, mounts), whose first process holds
them: when that process is killed, everything ends, in any state. Builds are stored in a cache
outside the tree. The package imports nothing of Windlass, and needs Debian 12 and root.
"""
