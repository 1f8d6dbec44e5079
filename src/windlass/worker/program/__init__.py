"""Code that runs in the user's process: calling the function, storing the result or the failure,
metrics and checkpoints.
"""
