"""The client of the server: one transport, the resource objects, the view of a run.

It imports model, packaging and worker. It never imports server, controller or
runtimes: the server is another process, found or started by `discovery`.
"""
