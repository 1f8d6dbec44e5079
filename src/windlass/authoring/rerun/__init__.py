"""Runs recorded trials again, either unchanged or with changes."""
