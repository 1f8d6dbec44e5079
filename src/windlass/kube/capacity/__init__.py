"""The capacity of a cluster: its nodes, the sizes of its machines, and its Kueue queues."""
