"""`wl.Trial` and the objects it returns: logs, metrics, artifacts, replicas, the queue."""
