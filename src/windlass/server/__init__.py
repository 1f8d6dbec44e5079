"""The server: `web` (HTTP), `api` (routes), `operations`, `stores` and `db`.

Runs as a process of its own (`python -m windlass.server`); no client imports it. It imports
`model`, `engine`, `frameworks`, `machine`, `controller`, `runtimes`, `kube`, `worker` and the
manifest of `packaging`, never `authoring`, and never unpickles anything that a user made.
"""
