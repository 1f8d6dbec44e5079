"""Running the migrations: by Alembic, on a database that an older version left."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config


def migrate(path: Path, to: str = "head") -> None:
    """Bring the database in a file, which may be empty, to the newest schema or an older one."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(path)))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, to)
    finally:
        engine.dispose()
