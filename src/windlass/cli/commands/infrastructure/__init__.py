"""Commands for the server, accelerators, clusters, the operator and shell completion."""
