"""The `windlass` command: one file a command, loaded when it is used.

It imports model, client, authoring and packaging, and never server, controller or
runtimes. Commands read options, ask the client and print; what they print for people
goes through `text` and `tables`, what they print for programs through `machine`.
"""
