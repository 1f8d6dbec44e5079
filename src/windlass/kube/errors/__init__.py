"""Errors of a cluster's API, as `wl.KubernetesError` with a remedy."""
