"""What users write: `@wl.run`, jobs and job files, and how each becomes a trial.

It imports model, frameworks, packaging and client, and never server, controller or runtimes.
Nothing here decides how a job runs; it only says what to run.
"""
