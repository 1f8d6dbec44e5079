"""Tests that need a framework which not everybody has installed."""

from __future__ import annotations

import importlib.util

import pytest


def needs(framework: str) -> pytest.MarkDecorator:
    """Skip what it marks where a framework is missing, and say how to have it."""
    is_missing = importlib.util.find_spec(framework) is None
    return pytest.mark.skipif(
        is_missing, reason=f"{framework} is missing: `make training` installs it"
    )
