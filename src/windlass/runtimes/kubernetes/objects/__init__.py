"""Names, builds, patches, creates and deletes a job's objects in a cluster."""
