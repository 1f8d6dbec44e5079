"""Defines `wl.Experiment`, which builds experiments and transfers their files."""
