"""The output of commands, such as tables, pages, plots, JSON and errors."""
