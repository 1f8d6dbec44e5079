"""The objects that users hold: trials, experiments, checkpoints, models, workspaces, shells."""
