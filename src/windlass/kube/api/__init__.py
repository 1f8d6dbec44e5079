"""The connection to a cluster's API, with logins, retries, watches and kinds of objects."""
