"""Code that runs at the start of a user's Python program. It imports only the standard library."""
