"""Code that runs at the start of a user's Python program. It imports the standard library only."""
