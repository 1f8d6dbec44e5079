"""The domain model: jobs, resources, records, states and errors, as frozen structs.

Every package may import this one. It imports no other package of Windlass and does no I/O. Client
and server exchange these same structs.
"""
