"""Tests that have the cluster for themselves: they stop its parts, change its definitions or
its machine, or manage all of its namespaces.

One process runs them, while the other processes run no test on a cluster. Otherwise each would wait
for all others to leave it.
"""
