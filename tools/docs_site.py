"""Hooks of the documentation site: pages from outside of `docs/`, commands, and HTTP routes.

MkDocs calls the functions whose names start with `on_`. `mkdocs.yml` names this file.
"""

from __future__ import annotations

import ast
import logging
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from windlass.cli.options.lazy_groups import SHOWS_ALL
from windlass.cli.root import cli
from windlass.server.app import openapi_document

ROOT = Path(__file__).parent.parent
# Files beside `docs/` that are pages of the site, too.
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
EXAMPLES = "examples/index.md"
COMMANDS = "<!-- commands -->"
ROUTES = "<!-- routes -->"

# `mkdocs build --strict` fails on a warning of this logger.
_log = logging.getLogger("mkdocs.hooks.docs_site")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages beside `docs/` and the examples."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    for path in sorted((ROOT / "examples").glob("*.py")):
        files.append(File.generated(config, f"examples/{path.name}", abs_src_path=str(path)))
    files.append(File.generated(config, EXAMPLES, content=examples_page()))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Fill in commands and routes, title examples, and point links to the pages of the site."""
    uri = page.file.src_uri
    if COMMANDS in markdown:
        context = click.Context(cli, info_name="windlass", **cli.context_settings)
        context.meta[SHOWS_ALL] = True
        markdown = markdown.replace(COMMANDS, "\n".join(commands_text(context)))
    if ROUTES in markdown:
        markdown = markdown.replace(ROUTES, routes_text(openapi_document()))
    markdown = re.sub(r"<!-- file: (\S+) -->\n```(\w+)\n", r'```\2 title="\1"' + "\n", markdown)
    return re.sub(
        r"\]\(([^)\s#]+)(#[^)\s]*)?\)",
        lambda link: f"]({site_target(uri, link[1])}{link[2] or ''})",
        markdown,
    )


def site_target(uri: str, target: str) -> str:
    """The target of a link as the site has it.

    >>> site_target("guides/jobs.md", "../../examples/torch_ddp.py")
    '../examples/torch_ddp.py'
    >>> site_target("contributing.md", "docs/guides/jobs.md")
    'guides/jobs.md'
    >>> site_target("guides/jobs.md", "logs.md")
    'logs.md'
    """
    if ":" in target or uri == EXAMPLES:
        return target
    is_beside = uri in PAGES.values()
    source = posixpath.dirname(uri if is_beside else f"docs/{uri}")
    path = posixpath.normpath(posixpath.join(source, target))
    if path.startswith("docs/"):
        found = path.removeprefix("docs/")
    elif path == "examples":
        found = EXAMPLES
    elif path in PAGES or re.fullmatch(r"examples/\w+\.py", path):
        found = PAGES.get(path, path)
    else:
        _log.warning("%s: the site has no page for the link to %s", uri, target)
        return target
    return posixpath.relpath(found, posixpath.dirname(uri) or ".")


def examples_page() -> str:
    """The page that lists the examples, each with the first line of its docstring."""
    lines = ["# Examples\n"]
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        lines.append(f"- [`{path.name}`]({path.name}): {text.partition(chr(10))[0]}")
    return "\n".join(lines) + "\n"


def commands_text(context: click.Context, level: int = 2) -> Iterator[str]:
    """The help of a command and of all its subcommands, as Markdown."""
    yield f"{'#' * level} {context.command_path}\n"
    yield f"```text\n{context.get_help()}\n```\n"
    if not isinstance(context.command, click.Group):
        return
    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        if command is None or command.hidden:
            continue
        settings = {**cli.context_settings, **command.context_settings}
        inner = click.Context(command, parent=context, info_name=name, **settings)
        yield from commands_text(inner, level + 1)


def routes_text(document: dict[str, Any]) -> str:
    """An OpenAPI document as Markdown: the routes by first path segment, then the types."""
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        noun = path.removeprefix("/api/v1/").partition("/")[0]
        for method, operation in operations.items():
            groups.setdefault(noun, []).extend(_route(method.upper(), path, operation))
    lines = []
    for noun, route_lines in groups.items():
        lines += [f"## {noun}\n", *route_lines]
    lines.append("## Types\n")
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += [f"### {name}\n", *_type_lines(schema)]
    return "\n".join(lines)


def _route(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### {method} {path}\n"
    yield re.sub(r"\n +", "\n", operation["summary"]) + "\n"
    parameters = operation["parameters"]
    if parameters:
        yield "| parameter | in | type | default |\n|---|---|---|---|"
        for each in parameters:
            name = f"**`{each['name']}`**" if each["required"] else f"`{each['name']}`"
            schema = each["schema"]
            yield f"| {name} | {each['in']} | {_type(schema)} | {_default(schema)} |"
        yield ""
    if "requestBody" in operation:
        yield f"Body: {_content(operation['requestBody']['content'])}\n"
    for status, response in sorted(operation["responses"].items()):
        if status != "default":
            yield f"Returns {status}: {_content(response['content'])}\n"


def _content(content: dict[str, Any]) -> str:
    return ", ".join(
        _type(body["schema"]) if media == "application/json" else f"`{media}`"
        for media, body in content.items()
    )


def _type_lines(schema: dict[str, Any]) -> Iterator[str]:
    if description := schema.get("description"):
        yield re.sub(r"\n +", "\n", description) + "\n"
    if "properties" not in schema:
        yield f"{_type(schema)}\n"
        return
    required = schema.get("required", ())
    yield "| field | type | default |\n|---|---|---|"
    for name, field in schema["properties"].items():
        shown = f"**`{name}`**" if name in required else f"`{name}`"
        yield f"| {shown} | {_type(field)} | {_default(field)} |"
    yield ""


def _type(schema: dict[str, Any]) -> str:
    """The type of a value in a few words, with links to the named types."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "allOf" in schema:
        return " and ".join(_type(each) for each in schema["allOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "any value")
    if kind == "array":
        items = schema.get("items")
        return f"array of {_type(items)}" if items else "array"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return str(kind)


def _default(schema: dict[str, Any]) -> str:
    if "default" not in schema or schema["default"] is None:
        return ""
    return f"`{schema['default']!r}`".replace("|", "\\|")
