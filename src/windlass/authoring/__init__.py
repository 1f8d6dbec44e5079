"""Jobs, job files and `@wl.run` as users write them, and their conversion to trials.

It imports model, frameworks, packaging and client, and never server, controller or runtimes.
This package describes what to run. It does not decide how a job runs.
"""
