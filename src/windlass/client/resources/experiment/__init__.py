"""`wl.Experiment`: building it, waiting for it, its files."""
