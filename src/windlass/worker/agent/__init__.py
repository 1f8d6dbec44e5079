"""The agent runs an attempt on a machine that has no server, for example in a pod.

It downloads the code and data of the attempt, starts the supervisor in its own home, and uploads
the supervisor's files to the server unchanged. It keeps all data that the server has not stored
yet. Like all of `worker`, it uses only the standard library. No other part of `worker` connects to
the server over HTTP.
"""
