"""Running the migrations: by Alembic, on a database that an older version left."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from windlass.server.migrations.torn import take_back

_PATIENCE = 10.0  # seconds, for whoever else has the database open


def migrate(path: Path, to: str = "head") -> None:
    """Bring the database in a file, which may be empty, to the newest schema or an older one.

    All of it is one transaction, the revision that it notes included: whoever is killed
    meanwhile leaves the database as it was.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    # The driver begins no transaction before a statement that alters tables: we do.
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(path)),
        connect_args={"isolation_level": None, "timeout": _PATIENCE},
    )
    try:
        with engine.begin() as connection:
            # Columns refer to rows that come later. Inside a transaction this would do nothing.
            connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            take_back(connection)
            config.attributes["connection"] = connection
            command.upgrade(config, to)
    finally:
        engine.dispose()
