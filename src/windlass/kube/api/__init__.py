"""The connection to a cluster's API, including logins, retries, watches and object kinds."""
