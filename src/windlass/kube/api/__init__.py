"""The API of a cluster: connection, logins, requests with retries, watches, kinds of objects."""
