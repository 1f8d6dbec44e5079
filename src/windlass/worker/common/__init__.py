"""Code that supervisor, user process and agent share: files, locks, identities, nudges, errors."""
