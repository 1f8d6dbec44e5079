"""The logs of trials: queries, pages, lines, and the merged log of a generator."""
