"""The worker, which consists of supervisor, user process and agent on the machine of a replica.

The worker must start in milliseconds, under any Python from 3.9. It may therefore import only this
package, the standard library and cloudpickle. The one exception is `common/errors.py`, which
imports the public errors when it raises one. The agent connects to the server over HTTP. All other
parts communicate with the server only through files and nudges. The worker makes no decisions. It
follows the instructions in `launch.json` and records the result.
"""
