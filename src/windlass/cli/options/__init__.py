"""The options and arguments of commands, their types, and jobs that are built from options."""
