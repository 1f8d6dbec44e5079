"""Commands for the server, accelerators, clusters, and the completion of a shell."""
