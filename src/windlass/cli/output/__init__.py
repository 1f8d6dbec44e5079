"""The output of commands: tables, pages, plots, JSON and errors."""
