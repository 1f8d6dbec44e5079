"""What runs beside user code: supervisor, bootstrap, log segments, what it can ask in a trial.

May import nothing of ours from outside this room, and nothing but the standard
library and cloudpickle: it must start in milliseconds, under any Python >= 3.9. The errors
that users know are imported once something is refused (`refusing.py`).
Never talks to the server but through files and nudges, and never decides: it
does what `launch.json` says and writes down how it went.
"""
