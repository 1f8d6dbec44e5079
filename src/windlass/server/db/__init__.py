"""The database: its protocol, SQLite, migrations, list pages, scopes and the `where` language.

`base.py` is the protocol that the rest of the server uses, `sqlite.py` its implementation, and
`migrations/` the schema. Statements are SQL text with named parameters. Modules here may import
`model`, and no other part of the server.
"""
