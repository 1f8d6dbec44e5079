"""Accelerators, the sizes of TPUs, and the resources of a replica or a machine."""
