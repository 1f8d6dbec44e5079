"""Commands for the server, accelerators, clusters and shell completion."""
