"""Finds the part of a script below `if __name__ == "__main__":` and turns it off.

A trial runs a guarded script again, without this part, as `multiprocessing` does in a spawned
process. The client uses the same functions to decide whether a script is guarded.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast  # imported inside functions, because most calls do not need it
    from collections.abc import Iterator


def parse(source: bytes) -> ast.Module:
    """Parse a script. The encoding comment at its beginning applies, if there is one."""
    import ast

    tree = compile(source, "<script>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, ast.Module)  # noqa: S101
    return tree


def guards(tree: ast.Module) -> list[ast.If]:
    """Return a script's top-level statements `if __name__ == "__main__":`.

    >>> [guard.lineno for guard in guards(parse(b'x = 1\\nif __name__ == "__main__": pass'))]
    [2]
    >>> guards(parse(b"if __name__ != '__main__': pass"))
    []
    """
    import ast

    return [node for node in tree.body if isinstance(node, ast.If) and _is_guard(node.test)]


def turn_off_guards(tree: ast.Module) -> None:
    """Make the top-level comparisons of `__name__` with "__main__" false, as in a spawned process.

    The variable `__name__` itself keeps its value "__main__", so that the names of classes and
    loggers are the same as in the script.
    """
    import ast

    for node in eager_nodes(tree):
        if isinstance(node, ast.Compare) and _is_comparison(node):
            for name in (node.left, *node.comparators):
                if isinstance(name, ast.Name):
                    spawned = ast.copy_location(ast.Constant("__mp_main__"), name)
                    node.left = spawned if node.left is name else node.left
                    others = node.comparators
                    node.comparators = [spawned if other is name else other for other in others]


def eager_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run while a script is loaded, which excludes functions' bodies."""
    import ast

    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, functions):
            yield from eager_nodes(child)
            continue
        arguments = child.args
        parts = [*getattr(child, "decorator_list", ()), *arguments.defaults]
        for part in (*parts, *(default for default in arguments.kw_defaults if default)):
            yield part
            yield from eager_nodes(part)


def _is_guard(test: ast.expr) -> bool:
    import ast

    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_is_guard(part) for part in test.values)
    is_equality = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)
    return is_equality and _is_comparison(test)


def _is_comparison(node: ast.expr) -> bool:
    """Return whether an expression compares `__name__` with "__main__"."""
    import ast

    if not isinstance(node, ast.Compare) or len(node.comparators) != 1:
        return False
    sides = (node.left, node.comparators[0])
    has_name = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
    return has_name and any(
        isinstance(side, ast.Constant) and side.value == "__main__" for side in sides
    )
