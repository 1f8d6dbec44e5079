"""The connection of agents to the server: the last contact, and tunnels if there is none."""
