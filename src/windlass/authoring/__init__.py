"""The part of the client where users write jobs, job files and `@wl.run` functions.

The package describes what to run, and converts that description to a request for a new trial. It
does not decide how a job runs. It imports `model`, `frameworks`, `packaging` and `client`, and
never `server`, `controller` or `runtimes`.
"""
