"""Names, manifests and patches of a job's objects in a cluster, and their creation and deletion."""
