"""Tests that have the cluster for themselves while they run: they stop its parts, change its
definitions or its machine, or look after all of its namespaces.

They are given to one process, and run while the others have no test of a cluster: else each would
wait for all others to leave it.
"""
