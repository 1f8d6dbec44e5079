"""The connections between agents in pods and the server.

Records when each agent last contacted the server, and opens tunnels to agents that cannot reach it.
"""
