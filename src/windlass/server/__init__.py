"""The HTTP API, who may use it, and the stores beneath it: SQL, logs, blobs.

Runs as a process of its own (`python -m windlass.server`); no client imports it.
It imports model, engine, frameworks, machine, controller, runtimes and worker, of packaging
the manifest, never authoring; and it never unpickles anything a user made.
"""
