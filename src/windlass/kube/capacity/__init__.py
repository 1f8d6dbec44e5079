"""The capacity of a cluster: its nodes, sizes of machines, Kueue's queues."""
