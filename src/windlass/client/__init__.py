"""The client side of Windlass, which sends requests to the server.

The package contains the HTTP transport, the objects that users hold (`wl.Trial`, `wl.Experiment`
and others), and the terminal view of a running trial.

The package imports `model`, `packaging` and `worker`. It never imports `server`, `controller` or
`runtimes`, because the server is a separate process, which `connection.discovery` finds or starts.
"""
