"""HTML of trials, experiments, tables, differences and curves for notebooks.

Each function returns a fragment of at most `elements.MOST_BYTES` bytes. It contains no script and
refers to no other file, so it also works in a saved notebook. Colours are readable on light and on
dark backgrounds, because a fragment does not know the notebook's theme.
"""
