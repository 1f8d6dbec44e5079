"""Reads the capacity of a cluster from its nodes and its Kueue queues."""
