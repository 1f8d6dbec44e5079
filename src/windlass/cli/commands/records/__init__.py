"""Commands for records and files: differences, code, checkpoints, artifacts, models, deletion."""
