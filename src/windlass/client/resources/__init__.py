"""The classes of the objects that users work with, such as `wl.Trial` and `wl.Experiment`."""
