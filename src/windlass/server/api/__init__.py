"""The routes of the HTTP API, one file per resource. Handlers validate and call a store."""
