"""The agent runs an attempt on a machine without a server, for example in a pod.

It downloads the attempt's code and data, starts the supervisor in its own home, and uploads the
supervisor's files to the server unchanged. It keeps all data until the server has stored it. Like
the rest of `worker`, it uses only the standard library. No other part of `worker` connects to the
server over HTTP.
"""
