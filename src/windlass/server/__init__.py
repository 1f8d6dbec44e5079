"""The server process, which stores all records and runs the controller.

`web` is the HTTP layer, and `api` contains the routes. `operations` does the work of larger
requests. `stores` and `db` keep the data. The server runs as its own process (`python -m
windlass.server`), and no client imports this package. The package may import `model`, `engine`,
`frameworks`, `machine`, `controller`, `runtimes`, `kube`, `worker` and the manifest module of
`packaging`. It never imports `authoring` and never unpickles user data.
"""
