"""The client side of Windlass, which sends requests to the server.

The package contains the HTTP transport, the objects that users hold (`wl.Trial`, `wl.Experiment`
and others), and the terminal view of a running trial.

This package imports `model`, `packaging` and `worker`. It never imports `server`, `controller` or
`runtimes`, because the server is another process. `connection.discovery` finds or starts that
process.
"""
