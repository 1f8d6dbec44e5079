"""Finds or starts the server, and sends requests to it over HTTP."""
