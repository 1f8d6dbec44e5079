"""Defines `wl.Experiment`, and the code that builds experiments and transfers their files."""
