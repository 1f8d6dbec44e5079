"""The checkpoints of a trial on disk: their records, sharded saves, and copies for programs."""
