"""The client code behind `wl.Job`, job files and `@wl.run`, where users describe what to run.

The package converts this description to a request for a new trial. It does not decide how a job
runs. It imports `model`, `frameworks`, `packaging` and `client`, and never `server`, `controller`
or `runtimes`.
"""
