"""The connections between agents in pods and the server.

Contains the time of each agent's last contact, and tunnels to agents that cannot reach the server.
"""
