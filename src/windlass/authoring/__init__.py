"""What users write: `@wl.run`, its options, and how a call becomes a trial.

It imports model, packaging and client, and never server, controller or runtimes.
Nothing here decides how a job runs; it only says what to run.
"""
