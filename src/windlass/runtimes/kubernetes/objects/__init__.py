"""A job's objects in a cluster: their names and manifests, their creation and deletion."""
