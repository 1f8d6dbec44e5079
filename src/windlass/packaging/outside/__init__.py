"""Finds packages that a job imports from outside its project, and takes snapshots of them.

These are packages installed from a folder, editable or not, and modules in folders of `sys.path`
that are neither in the project nor installed. This package may import the rest of `packaging`, and
`model`.
"""
