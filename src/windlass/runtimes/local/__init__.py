"""The local runtime: processes of this machine, each with a supervisor."""
