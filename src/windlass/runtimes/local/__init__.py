"""The local runtime, which runs each replica as a supervised process on this machine."""
