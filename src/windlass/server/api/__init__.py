"""The routes of the HTTP API, one file a resource. Each checks, asks a store, and answers."""
