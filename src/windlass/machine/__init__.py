"""This machine's capacity, and the job options that it does not support.

The runtime and the server use this package to run jobs on this machine, and dry runs use it without
running anything. It imports only `model`.
"""
