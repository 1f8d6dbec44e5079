"""The database: its protocol, SQLite, migrations, list pages, scopes and the `where` language.

The rest of the server uses the protocol in `base.py`, which `sqlite.py` implements. `migrations/`
contains the schema. Statements are SQL text with named parameters. Modules here may import `model`
but no other part of the server.
"""
