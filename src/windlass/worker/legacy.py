"""Checkpoints as the first versions kept them: folders with a copy in them, to be read still."""

from __future__ import annotations

import os

from windlass.worker.files import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_RECORD = "checkpoint.json"
_DATA = "data"


def read_record(folder: str, number: int) -> dict[str, Any] | None:
    """What `<number>/` says of itself, with the `path` of what was saved; none if it is none."""
    checkpoint = os.path.join(folder, str(number))
    record = read_json(os.path.join(checkpoint, _RECORD))
    name = (record or {}).get("name")
    if record is None or not isinstance(name, str) or name != os.path.basename(name):
        return None
    path = os.path.join(checkpoint, _DATA, name)
    return {**record, "path": path} if name and os.path.exists(path) else None
