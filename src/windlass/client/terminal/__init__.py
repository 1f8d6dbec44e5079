"""The terminal of a waiting client: log lines, the status line, progress, attached shells."""
