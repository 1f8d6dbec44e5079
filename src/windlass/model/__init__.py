"""What things are: jobs, resources, records, states and errors, as frozen structs.

Everyone may import this room; it imports nothing of ours and does no I/O.
The same structs are the wire between client and server, on both sides.
"""
