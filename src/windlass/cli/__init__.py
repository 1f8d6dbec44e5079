"""The `windlass` command, with the packages `commands`, `options` and `output`.

A command reads its options, calls the client and prints the result. Commands import `client` and
`authoring`, but never `server` or `controller`. Each command's module is loaded only when the
command runs.
"""
