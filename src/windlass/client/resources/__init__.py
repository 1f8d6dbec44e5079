"""The classes of the objects that users hold, such as `wl.Trial` and `wl.Experiment`."""
