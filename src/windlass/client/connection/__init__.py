"""The connection to a server, which is found or started, and receives requests over HTTP."""
