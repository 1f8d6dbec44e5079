"""Everyday commands: run a trial, find it, read its logs, metrics and result, stop it."""
