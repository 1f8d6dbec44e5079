"""The HTTP layer: routing, messages, authentication, error responses and notifications.

This layer knows neither trials nor the database. It may import `model` and `server.errors` but no
other part of the server.
"""
