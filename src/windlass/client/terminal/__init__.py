"""Terminal output while a client waits, and shells that are attached to the terminal."""
