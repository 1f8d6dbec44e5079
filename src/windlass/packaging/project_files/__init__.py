"""Lists the files that belong to a project, and detects which of them have changed.

The list follows git, or the ignore files of a folder without git. It may import what `packaging`
may import.
"""
