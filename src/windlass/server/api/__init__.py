"""The routes of the HTTP API, with one file per resource. Handlers validate and call a store."""
