"""Code for files, locks, identities and nudges that supervisor, user process and agent share."""
