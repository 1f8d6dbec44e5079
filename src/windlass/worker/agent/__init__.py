"""The agent runs beside a supervisor on a machine without a server, for example in a pod.

It fetches a trial's code and data, has the same supervisor run the trial in its own home, and
uploads the files of the supervisor to the server, byte for byte. Like all of `worker`, it uses only
the standard library. No other part of `worker` connects to the server. The agent keeps all data
that the server has not stored yet.
"""
