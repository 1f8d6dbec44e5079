"""Advice that speaks of Python arguments, in the words of the command line."""

from __future__ import annotations

import re

_PACKAGES = re.compile(r'\bpackages=\["([^"]*)"\]')
_VOLUMES = re.compile(r'\bvolumes=\{"([^"]*)": "([^"]*)"\}')
_OTHERS = re.compile(
    r"\b(accelerator|backend|cluster|container_image|cpus|env|memory|packages|retries|secrets"
    r'|timeout|volumes)=(?:"([^"]*)")?'
)
_SINGULAR = {"packages": "package", "secrets": "secret", "volumes": "volume"}


def as_options(text: str) -> str:
    """The same advice with the options of `windlass run`.

    >>> as_options('Tip: install it for the trial: packages=["scikit-learn"]')
    'Tip: install it for the trial: --package scikit-learn'
    >>> as_options('set aside what it needs: memory="8GB", or give it longer: timeout=')
    'set aside what it needs: --memory 8GB, or give it longer: --timeout'
    """
    text = _PACKAGES.sub(r"--package \1", text)
    text = _VOLUMES.sub(r"--volume \1=\2", text)
    return _OTHERS.sub(_option, text)


def _option(match: re.Match[str]) -> str:
    name = _SINGULAR.get(match[1], match[1]).replace("_", "-")
    return f"--{name}" + (f" {match[2]}" if match[2] else "")
