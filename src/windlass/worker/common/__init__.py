"""Parts that the supervisor, the user's process and the agent share: files, identities, errors."""
