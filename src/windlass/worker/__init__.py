"""The worker: supervisor, bootstrap, log segments, and the functions of a program in a trial.

May import only this package, the standard library and cloudpickle: the worker must start in
milliseconds, under any Python >= 3.9. The one exception is `common/errors.py`, which imports the
public errors when it raises one. Except for the agent, the worker communicates with the server only
through files and nudges. It decides nothing: it does what `launch.json` says and records the
result.
"""
