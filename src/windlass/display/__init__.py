"""Formats records for terminals and notebooks: the columns and cells of tables, and HTML.

All functions are pure: the caller fetches the records and passes the current time. `html` contains
the parts that only notebooks show. This package imports `model` and `comparison`.
"""
