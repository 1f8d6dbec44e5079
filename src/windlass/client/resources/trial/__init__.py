"""Defines `wl.Trial` and the objects that its methods return, such as logs and metrics."""
