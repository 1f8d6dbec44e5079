"""The local runtime, which runs each replica as a process of this machine with a supervisor."""
