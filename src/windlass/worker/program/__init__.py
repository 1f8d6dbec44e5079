"""Code that runs in the user's process: calls the function, stores its outcome, and reports."""
