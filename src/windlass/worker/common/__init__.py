"""Code for files, locks, identities and nudges, shared by supervisor, user process and agent."""
