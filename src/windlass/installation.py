"""Tells how this copy of Windlass was installed, for hints that name one of its extras."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any


def extra_hint(extra: str, packages: str) -> str:
    """Return a hint that names the command to install one of Windlass's extras.

    The command adds the extra to this copy of Windlass, and installs from the same source as this
    copy, because a package index may have a package of another author with the same name.
    `packages` are the extra's packages, for a copy that was not installed at all.
    """
    try:
        from importlib import metadata

        distribution = metadata.distribution("windlass")
        origin = json.loads(distribution.read_text("direct_url.json") or "null")
        installer = (distribution.read_text("INSTALLER") or "").strip()
    except Exception:  # noqa: BLE001 - a hint must not fail
        return f"Install it: pip install {packages}"
    command = "uv pip install" if installer == "uv" else "pip install"
    return f"Install it: {command} {_requirement(extra, origin)}"


def _requirement(extra: str, origin: Any) -> str:
    """Return the arguments of pip that install Windlass with an extra from an origin.

    `origin` is the content of `direct_url.json`, or None for a package from an index.

    >>> _requirement("search", None)
    "'windlass[search]'"
    >>> _requirement("search", {"url": "file:///code/windlass", "dir_info": {"editable": True}})
    "-e '/code/windlass[search]'"
    >>> _requirement("search", {"url": "file:///code/windlass", "dir_info": {}})
    "'/code/windlass[search]'"
    >>> origin = {"url": "https://host/w.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}
    >>> _requirement("search", origin)
    "'windlass[search] @ git+https://host/w.git@c0ffee'"
    >>> _requirement("search", {"url": "https://host/w.whl", "archive_info": {}})
    "'windlass[search] @ https://host/w.whl'"
    """
    name = f"windlass[{extra}]"
    if not isinstance(origin, dict) or not isinstance(origin.get("url"), str):
        return shlex.quote(name)
    url = origin["url"]
    if "dir_info" in origin and url.startswith("file:"):
        from urllib.parse import unquote, urlsplit

        folder = os.path.normpath(unquote(urlsplit(url).path))
        option = "-e " if origin["dir_info"].get("editable") else ""
        return option + shlex.quote(f"{folder}[{extra}]")
    if "vcs_info" in origin:
        version = origin["vcs_info"]
        url = f"{version['vcs']}+{url}@{version['commit_id']}"
    return shlex.quote(f"{name} @ {url}")
