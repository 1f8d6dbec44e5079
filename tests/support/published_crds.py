"""Custom resource definitions of other projects. Tests that need them are skipped without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[3] / "shared" / "crds"
needed = pytest.mark.skipif(not FOLDER.is_dir(), reason="the published definitions are not at hand")


def definition(plural: str) -> Any:
    """Load Kubeflow's definition of `tfjobs` or `pytorchjobs`:

    half a megabyte, so use a fast loader.
    """
    text = (FOLDER / f"kubeflow.org_{plural}.yaml").read_text()
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
