"""Converts errors from a cluster's API to a `wl.KubernetesError` that names a remedy."""
