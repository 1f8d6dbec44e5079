"""Checkpoint rows in the database, including deletion marks and uses by trials and models."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from windlass.model.errors import Conflict, NotFound
from windlass.model.records import CheckpointRecord
from windlass.server.db.base import Connection, Row
from windlass.server.db.paging import Conditions

MOST_METADATA = 100
_MOST_NAMED = 3
_UID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_ELSEWHERE = ("metadata", "metrics", "models", "continued_by")
_FIELDS = tuple(name for name in CheckpointRecord.__struct_fields__ if name not in _ELSEWHERE)
INSERT = """
INSERT INTO checkpoints (
    uid, trial_id, number, name, is_folder, step, created, role, "index", attempt, shards,
    manifest, files, size, metadata
) SELECT
    :uid, :trial_id, :number, :name, :is_folder, :step, :created, :role, :index, :attempt,
    :shards, :manifest, :files, :size, :metadata
WHERE EXISTS (SELECT 1 FROM trials WHERE id = :trial_id) ON CONFLICT (uid) DO NOTHING
"""
LIVE = "SELECT * FROM checkpoints WHERE NOT is_deleted"


def use(connection: Connection, uid: str, kind: str, user_id: int) -> None:
    """Record that a trial starts from a checkpoint or that a model version refers to it.

    `kind` is `trial` or `model version`, and `user_id` is that trial's or version's id.
    """
    connection.run(
        "INSERT INTO checkpoint_uses (checkpoint_id, kind, user_id)"
        " SELECT id, :kind, :user_id FROM checkpoints WHERE uid = :uid AND NOT is_deleted"
        " ON CONFLICT DO NOTHING",
        {"uid": uid, "kind": kind, "user_id": user_id},
    )


def let_go(connection: Connection, trial_ids: Sequence[int]) -> None:
    """Forget which checkpoints these trials started from, because the trials are being deleted."""
    conditions = Conditions()
    conditions.one_of("user_id", trial_ids)
    conditions.equal("kind", "trial")
    connection.run(f"DELETE FROM checkpoint_uses{conditions.text}", conditions.parameters)


def refuse_used(connection: Connection, trial_ids: Sequence[int]) -> None:
    """Raise Conflict if any of these trials' checkpoints is in use, so that no trial is deleted."""
    for trial_id in trial_ids:
        there = of_trial(connection, trial_id)
        if uses := find_uses(connection, [record.id for record in there]):
            raise is_used(there, uses)


def find_by_uid(connection: Connection, uid: str) -> CheckpointRecord | None:
    """Return the checkpoint that has this uid, or None if there is none."""
    row = connection.row(f"{LIVE} AND uid = :uid", {"uid": uid})
    return None if row is None else to_record(row)


def list_numbers(connection: Connection, trial_id: int) -> set[int]:
    """Return the numbers of a trial's checkpoints."""
    rows = connection.rows(f"{LIVE} AND trial_id = :trial_id", {"trial_id": trial_id})
    return {row["number"] for row in rows}


def of_trial(connection: Connection, trial_id: int) -> list[CheckpointRecord]:
    """Return all of a trial's checkpoints in the order of their import."""
    rows = connection.rows(f"{LIVE} AND trial_id = :trial_id ORDER BY id", {"trial_id": trial_id})
    return [to_record(row) for row in rows]


def find(connection: Connection, key: str) -> CheckpointRecord:
    """Return the checkpoint that has this id or uid. Raise NotFound if there is none."""
    if _UID.fullmatch(key):
        record = find_by_uid(connection, key)
        if record is not None:
            return record
    elif key.isascii() and key.isdecimal() and len(key) < 19:
        row = connection.row(f"{LIVE} AND id = :id", {"id": int(key)})
        if row is not None:
            return to_record(row)
    newest = connection.row(f"{LIVE} ORDER BY id DESC LIMIT 1")
    there = "There are no checkpoints yet. Save one in a trial: wl.save_checkpoint(path)"
    if newest is not None:
        there = (
            f"The newest is {newest['id']}, of trial {newest['trial_id']}."
            " See them all: windlass checkpoint ls"
        )
    raise NotFound(f"There is no checkpoint {key[:80]}.", hint=there)


def mark_deleted(
    connection: Connection, records: Sequence[CheckpointRecord]
) -> list[CheckpointRecord]:
    """Mark the unused checkpoints among these as deleted, and return them."""
    mark = (
        "UPDATE checkpoints SET is_deleted = TRUE WHERE id = :id AND NOT EXISTS"
        " (SELECT 1 FROM checkpoint_uses WHERE checkpoint_id = :id)"
    )
    return [record for record in records if connection.run(mark, {"id": record.id})]


def find_uses(connection: Connection, ids: Sequence[int]) -> list[Row]:
    """Return the uses of checkpoints by trials that started from them and by model versions."""
    conditions = Conditions()
    conditions.one_of("checkpoint_uses.checkpoint_id", ids or [-1])
    query = (
        "SELECT checkpoint_uses.*, models.name AS model, model_versions.version"
        " FROM checkpoint_uses"
        " LEFT JOIN model_versions ON kind != 'trial' AND model_versions.id = user_id"
        f" LEFT JOIN models ON models.id = model_versions.model_id{conditions.text}"
        " ORDER BY kind, user_id"
    )
    return connection.rows(query, conditions.parameters)


def with_uses(
    connection: Connection, records: Sequence[CheckpointRecord]
) -> list[CheckpointRecord]:
    """Return copies of the checkpoints that include the trials and model versions using them."""
    models: dict[int, dict[str, int]] = {}
    trials: dict[int, list[int]] = {}
    for row in find_uses(connection, [record.id for record in records]):
        if row["kind"] == "trial":
            trials.setdefault(row["checkpoint_id"], []).append(row["user_id"])
        else:
            models.setdefault(row["checkpoint_id"], {})[row["model"]] = row["version"]
    return [
        msgspec.structs.replace(
            record, models=models.get(record.id, {}), continued_by=tuple(trials.get(record.id, ()))
        )
        for record in records
    ]


def is_used(records: Sequence[CheckpointRecord], uses: Sequence[Row]) -> Conflict:
    """Return the error for checkpoints that cannot be deleted because they are in use.

    The error names the trials and models that use the checkpoints.
    """
    sentences = []
    for record in records:
        own = [row for row in uses if row["checkpoint_id"] == record.id]
        if own:
            sentences.append(
                f"Checkpoint {record.id} of trial {record.trial_id} cannot be deleted:"
                f" {_reasons(own)}."
            )
    more = len(sentences) - _MOST_NAMED
    if more > 0:
        sentences[_MOST_NAMED:] = [f"The trial has {more} more such checkpoints."]
    return Conflict(
        " ".join(sentences), hint="Delete the trials and model versions that need it first."
    )


def _reasons(uses: Sequence[Row]) -> str:
    named = [
        f"trial {row['user_id']} started from it"
        if row["kind"] == "trial"
        else f"it is version {row['version']} of the model {row['model']!r}"
        for row in uses[:_MOST_NAMED]
    ]
    more = f" and {len(uses) - _MOST_NAMED} more" if len(uses) > _MOST_NAMED else ""
    return f"{', '.join(named)}{more}"


def to_record(row: Row) -> CheckpointRecord:
    """Convert a database row to a checkpoint record."""
    fields = {name: row[name] for name in _FIELDS}
    fields["is_folder"] = bool(row["is_folder"])
    metadata = msgspec.json.decode(row["metadata"]) if row["metadata"] else {}
    return CheckpointRecord(**fields, metadata=metadata)
