"""The client code behind `wl.Job`, job files and `@wl.run`, with which users describe what to run.

The package converts such a description to a request for a new trial. It does not decide how a job
runs. It imports `model`, `frameworks`, `packaging` and `client`, and never `server`, `controller`
or `runtimes`.
"""
