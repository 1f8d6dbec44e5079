"""Who may import whom. The table in docs/architecture.md says the same in words."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
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
    "machine": {"model"},
    "kube": {"model", "home"},
    "controller": {"model", "engine", "runtimes.protocol"},
    "runtimes": {"model", "frameworks", "machine", "kube", "worker", "version", "home"},
    "server": {
        "model", "frameworks", "machine", "controller", "engine", "runtimes", "kube", "worker",
        "version", "home", "packaging.manifest",
    },
    "operator": {
        "model", "engine", "controller", "frameworks", "kube", "runtimes.protocol", "version",
    },
    "comparing": {"model"},
    "integrations": {"worker"},
    "search": {"model", "client", "authoring", "comparing", "version", "home"},
    "cli": {
        "model", "frameworks", "client", "authoring", "comparing", "search", "packaging", "worker",
        "version", "home", "kube",
    },
}  # fmt: skip

# What a room may import inside functions, besides: the objects that users hold can do more than
# ask, and what does it is loaded when it is used.
LATE = {
    # What programs are refused with in a trial is what users of `wl` catch; neither file imports
    # anything but the other.
    "worker": {"model.errors", "model.refusals"},
    # A process of its own, which a command starts; what would be created, where nothing is.
    "cli": {"operator", "runtimes.kubernetes.manifests"},
    "authoring": {"kube"},  # a login is tried before it is kept
    "client": {
        "authoring", "comparing", "search",
        # A dry run refuses what the server would, and none runs.
        "engine.fitting", "frameworks", "machine",
    },
}  # fmt: skip


def imports_of(path: Path, *, late: bool = True) -> set[str]:
    """Every module a file imports: wherever in the file, or only when it is imported itself."""
    found = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree) if late else _at_import(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide which room is meant"
            found.add(node.module or "")
            if node.module == "windlass":
                found |= {f"windlass.{alias.name}" for alias in node.names}
    return found


def _at_import(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        is_later = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
        is_for_types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if not is_later and not is_for_types:
            yield from _at_import(child)


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_a_room_imports_only_what_it_may(room: str) -> None:
    files = sorted((SOURCE / room).rglob("*.py"))
    assert files
    for path in files:
        for module in imports_of(path):
            if not module.startswith("windlass."):
                continue
            inner = module.removeprefix("windlass.")
            is_late = module not in imports_of(path, late=False)
            names = ALLOWED[room] | {room} | (LATE.get(room, set()) if is_late else set())
            allowed = any(inner == name or inner.startswith(name + ".") for name in names)
            assert allowed, f"{path.relative_to(SOURCE)} imports {module}"


def test_the_worker_imports_nothing_but_the_standard_library_and_cloudpickle() -> None:
    """Late, and where there is something to fall back to, what makes digests faster."""
    for path in sorted((SOURCE / "worker").rglob("*.py")):
        for module in imports_of(path):
            top = module.partition(".")[0]
            is_late = module not in imports_of(path, late=False)
            is_error = is_late and module in {"windlass.model.errors", "windlass.model.refusals"}
            ours = module.startswith("windlass.worker") or top in _siblings() or is_error
            is_faster = is_late and (path.name, top) == ("digests.py", "blake3")
            assert ours or is_faster or top in {*sys.stdlib_module_names, "cloudpickle"}, (
                f"{path}: {module}"
            )


def _siblings() -> set[str]:
    return {path.stem for path in (SOURCE / "worker").glob("*.py")}


def test_every_room_of_the_source_has_its_rules() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert rooms == set(ALLOWED)
