"""Commands for queued and running trials, and for commands and shells."""
