"""The worker: the supervisor, user process and agent on a replica's machine.

The worker must start in milliseconds, under any Python from 3.9 on. It may therefore import only
this package, the standard library and cloudpickle. The one exception is `common/errors.py`, which
imports the public errors only to raise them. The agent connects to the server over HTTP. All other
parts communicate with the server only through files and nudges. The worker makes no decisions: it
follows the instructions in `launch.json` and records the result.
"""
