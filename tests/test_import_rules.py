"""Import rules of the packages. docs/explanation/architecture/packages.md has the same table."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "windlass"

# The packages of Windlass that each package may import, besides itself.
ALLOWED = {
    "model": set(),
    "worker": set(),
    "engine": {"model"},
    "frameworks": {"model"},
    "packaging": {"model", "worker", "version", "home"},
    "display": {"model", "comparison"},
    "client": {"model", "packaging", "worker", "version", "home", "display"},
    "authoring": {"model", "frameworks", "packaging", "client", "version", "home"},
    "machine": {"model"},
    "kube": {"model", "home", "installation"},
    "controller": {"model", "engine", "runtimes.base"},
    "runtimes": {"model", "frameworks", "machine", "kube", "worker", "version", "home"},
    "server": {
        "model", "frameworks", "machine", "controller", "engine", "runtimes", "kube", "worker",
        "version", "home", "packaging.manifest",
    },
    "operator": {
        "model", "engine", "controller", "frameworks", "kube", "runtimes.base", "version",
        "installation",
    },
    "comparison": {"model"},
    "integrations": {"worker"},
    "search": {
        "model", "client", "authoring", "comparison", "display", "version", "home", "installation",
    },
    "cli": {
        "model", "frameworks", "client", "authoring", "comparison", "display", "search",
        "packaging", "worker", "version", "home", "kube",
    },
}  # fmt: skip

# `sitecustomize.py` imports these modules, which are in the same folder.
_BESIDE = ("windlass_streams", "windlass_imports", "sitecustomize")

# The layers of a package, and the siblings that each layer may import.
LAYERS: dict[str, dict[str, set[str]]] = {
    "server": {
        "web": {"errors"},
        "db": set(),
        "stores": {"db", "errors"},
        "operations": {"stores", "db", "web", "services", "errors"},
        "api": {"operations", "stores", "db", "web", "services", "errors"},
    },
    "client": {
        "connection": set(),
        "arguments": set(),
        "resources": {"connection", "arguments"},
        "client": {"connection", "arguments"},
        "terminal": {"connection", "resources", "client"},
        "dry_run": {"connection", "resources", "client"},
    },
    "cli": {
        "output": set(),
        "options": {"output"},
        "commands": {"options", "output", "root"},
    },
    "kube": {
        "errors": {"explanation", "permission", "quantity", "timestamp"},
        "api": {"errors", "explanation", "permission", "quantity", "timestamp"},
        "capacity": {"api", "explanation", "permission", "quantity", "timestamp"},
        "permissions": {"api", "errors", "explanation", "permission"},
        "diagnosis": {
            "api", "capacity", "explanation", "permission", "pod_state", "quantity", "timestamp",
        },
    },
    "operator": {
        "jobs": {"events", "job_kinds", "names", "object_cache", "prometheus"},
        "pods": {"jobs", "events", "job_kinds", "names", "object_cache"},
    },
}  # fmt: skip

# The siblings that a layer may also import inside functions.
LATE_LAYERS = {
    "client": {
        "resources": {"terminal", "dry_run", "client"},
        "client": {"resources"},
        "dry_run": {"terminal"},
    },
}

# The packages that a package may also import inside functions. Objects that users hold have methods
# that need more code, which is loaded on first use.
LATE = {
    # Programs catch errors of a trial with the classes of `wl`. Each of the two files imports only
    # the other.
    "worker": {"model.errors", "model.worker_errors"},
    # A command starts another process; a dry run shows the objects that it would create.
    "cli": {"operator", "runtimes.kubernetes.objects.preview_manifests"},
    "comparison": {"display"},  # a notebook shows tables and differences as HTML
    "authoring": {"kube"},  # a login is tried before it is stored
    "client": {
        "authoring", "comparison", "search",
        # A dry run refuses the same jobs as the server, without a server.
        "engine.fits_machine", "frameworks", "machine",
    },
}  # fmt: skip

# Nodes that never contain an import.
_WITHOUT_STATEMENTS = (ast.expr, ast.Return, ast.Assign, ast.AnnAssign, ast.Expr, ast.arguments)


class Imports(NamedTuple):
    """The modules that a file imports."""

    all: set[str]
    early: set[str]  # while the file itself is imported, not in a function that is called later


@functools.cache
def imports_of(path: Path) -> Imports:
    """Parse a file once for all rules."""
    imports = Imports(set(), set())
    nodes: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text()), False)]
    while nodes:
        node, is_late = nodes.pop()
        modules = _modules_of(node, path)
        imports.all.update(modules)
        if not is_late:
            imports.early.update(modules)
        if isinstance(node, _WITHOUT_STATEMENTS):
            continue
        is_late = is_late or _is_late(node)
        nodes += [(child, is_late) for child in ast.iter_child_nodes(node)]
    return imports


def _modules_of(node: ast.AST, path: Path) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if not isinstance(node, ast.ImportFrom):
        return set()
    assert node.level == 0, f"{path}: relative imports hide which room is meant"
    names = {f"windlass.{alias.name}" for alias in node.names} if node.module == "windlass" else ()
    return {node.module or "", *names}


def _is_late(node: ast.AST) -> bool:
    """Return whether the statements below a node run after the import of their file."""
    is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return is_function or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_a_package_imports_only_allowed_packages(room: str) -> None:
    files = sorted((SOURCE / room).rglob("*.py"))
    assert files
    for path in files:
        imports = imports_of(path)
        for module in imports.all:
            if not module.startswith("windlass."):
                continue
            inner = module.removeprefix("windlass.")
            is_late = module not in imports.early
            names = ALLOWED[room] | {room} | (LATE.get(room, set()) if is_late else set())
            allowed = any(inner == name or inner.startswith(name + ".") for name in names)
            assert allowed, f"{path.relative_to(SOURCE)} imports {module}"


@pytest.mark.parametrize(
    ("package", "layer"),
    [(package, layer) for package, layers in LAYERS.items() for layer in layers],
)
def test_a_layer_imports_only_the_layers_below_it(package: str, layer: str) -> None:
    prefix = f"windlass.{package}."
    late = LATE_LAYERS.get(package, {}).get(layer, set())
    folder = SOURCE / package / layer
    files = sorted(folder.rglob("*.py")) or [folder.with_suffix(".py")]
    for path in files:
        imports = imports_of(path)
        for module in imports.all:
            if not module.startswith(prefix):
                continue
            sibling = module.removeprefix(prefix).partition(".")[0]
            is_late = module not in imports.early
            allowed = LAYERS[package][layer] | {layer} | (late if is_late else set())
            assert sibling in allowed, f"{path.relative_to(SOURCE)} imports {module}"


@pytest.mark.parametrize("package", sorted(LAYERS))
def test_every_layer_of_a_package_has_its_rule(package: str) -> None:
    folders = {path.parent.name for path in (SOURCE / package).glob("*/__init__.py")}
    assert folders <= set(LAYERS[package])


def test_the_worker_imports_nothing_but_the_standard_library_and_cloudpickle() -> None:
    """Except for a faster digest library, imported late and with a fallback."""
    for path in sorted((SOURCE / "worker").rglob("*.py")):
        imports = imports_of(path)
        for module in imports.all:
            top = module.partition(".")[0]
            is_late = module not in imports.early
            is_error = is_late and module in {
                "windlass.model.errors",
                "windlass.model.worker_errors",
            }
            ours = module.startswith("windlass.worker") or top in _siblings() or is_error
            is_faster = is_late and (path.name, top) == ("digest.py", "blake3")
            ours |= path.name == "sitecustomize.py" and top in _BESIDE
            assert ours or is_faster or top in {*sys.stdlib_module_names, "cloudpickle"}, (
                f"{path}: {module}"
            )


def _siblings() -> set[str]:
    return {path.stem for path in (SOURCE / "worker").glob("*.py")}


def test_only_the_database_package_knows_the_driver() -> None:
    """Other code catches the errors of `server/db/errors.py`."""
    driver = {"sqlite3", "psycopg", "apsw"}
    users = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if not driver.isdisjoint(module.partition(".")[0] for module in imports_of(path).all)
    }
    assert users == {"server/db/migrate.py", "server/db/sqlite_connection.py"}


def test_every_package_of_the_source_has_its_rules() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert rooms == set(ALLOWED)
