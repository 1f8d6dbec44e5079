"""The objects of a job in a cluster: names, manifests, patches, creation and deletion."""
