"""Tests that need an optional framework."""

from __future__ import annotations

import importlib.util

import pytest


def needs(framework: str) -> pytest.MarkDecorator:
    """Skip a test if a framework is missing, and explain how to install it."""
    is_missing = importlib.util.find_spec(framework) is None
    return pytest.mark.skipif(
        is_missing, reason=f"{framework} is missing: `make training` installs it"
    )
