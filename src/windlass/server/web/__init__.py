"""The HTTP layer: routing, messages, authentication, errors as responses, notifications.

Knows nothing of trials or of the database. May import `model` and `server.errors`, and no other
part of the server.
"""
