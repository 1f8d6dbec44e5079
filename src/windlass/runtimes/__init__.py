"""Where replicas live: the local machine today, behind one protocol.

May import `model` and `worker`. A runtime reports what it sees and does what it is
asked; it never decides whether a replica should run, and never unpickles anything.
"""
