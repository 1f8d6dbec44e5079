"""Everyday commands, for running, listing, inspecting and stopping trials."""
