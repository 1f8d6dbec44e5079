"""The `windlass` command: `commands` (one module each), their `options` and their `output`.

A command reads its options, calls the client and prints. It imports the client and authoring, and
never the server or the controller. Commands are loaded when they are called.
"""
