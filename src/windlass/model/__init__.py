"""The domain model: jobs, resources, records, states and errors, as frozen structs.

Every package of Windlass may import `model`, and `model` imports no other package and does no I/O.
The client and the server exchange these same structs.
"""
