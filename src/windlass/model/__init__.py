"""The domain model: jobs, resources, records, states and errors, as frozen structs.

Every Windlass package may import `model`, but `model` imports no other package and does no I/O. The
client and the server exchange these same structs.
"""
