"""Benchmarks of Windlass against bare Python and other tools: `make bench`.

Each file has a group of figures, registered by `registry.benchmark`. `scripts` has the programs
that they run, written as a user writes them. A benchmark runs in its own processes, home and
project (`workshop`) and leaves nothing behind. Nothing here is part of the package, and no missed
budget fails a test.
"""
