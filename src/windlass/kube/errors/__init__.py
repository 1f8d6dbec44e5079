"""Converts errors of a cluster's API to a `wl.KubernetesError` with a remedy."""
