"""Who may import whom. The table in docs/architecture.md says the same in words."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "windlass"

# What each room may import of ours, besides itself.
ALLOWED = {
    "model": set(),
    "worker": set(),
    "engine": {"model"},
    "frameworks": {"model"},
    "packaging": {"model", "worker", "version", "home"},
    "client": {"model", "packaging", "worker", "version", "home"},
    "authoring": {"model", "frameworks", "packaging", "client", "version", "home"},
    "controller": {"model", "engine", "runtimes.protocol"},
    "runtimes": {"model", "frameworks", "worker", "version", "home"},
    "server": {
        "model", "frameworks", "controller", "engine", "runtimes", "worker", "version", "home",
        "packaging.manifest",
    },
    "cli": {"model", "frameworks", "client", "authoring", "packaging", "worker", "version", "home"},
}  # fmt: skip


def imports_of(path: Path) -> set[str]:
    """Every module a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide which room is meant"
            found.add(node.module or "")
            if node.module == "windlass":
                found |= {f"windlass.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_a_room_imports_only_what_it_may(room: str) -> None:
    files = sorted((SOURCE / room).rglob("*.py"))
    assert files
    for path in files:
        for module in imports_of(path):
            if not module.startswith("windlass."):
                continue
            inner = module.removeprefix("windlass.")
            allowed = any(
                inner == name or inner.startswith(name + ".") for name in ALLOWED[room] | {room}
            )
            assert allowed, f"{path.relative_to(SOURCE)} imports {module}"


def test_the_worker_imports_nothing_but_the_standard_library_and_cloudpickle() -> None:
    for path in sorted((SOURCE / "worker").rglob("*.py")):
        for module in imports_of(path):
            top = module.partition(".")[0]
            ours = module.startswith("windlass.worker") or top in _siblings()
            assert ours or top in {*sys.stdlib_module_names, "cloudpickle"}, f"{path}: {module}"


def _siblings() -> set[str]:
    return {path.stem for path in (SOURCE / "worker").glob("*.py")}


def test_every_room_of_the_source_has_its_rules() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert rooms == set(ALLOWED)
