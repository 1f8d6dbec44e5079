"""How fast Windlass is, beside bare Python and beside others: `make bench`.

One file a group of figures, each registered by `registry.benchmark`; `scripts` holds the
programs they run, written as a user writes them. What is measured runs in processes, a home and
a project of its own (`workshop`) and leaves nothing. Nothing here is part of the package, and
no budget ever fails a test.
"""
