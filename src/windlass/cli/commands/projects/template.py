"""Implements `windlass template`, which manages named sets of job fields."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.lazy_groups import Group
from windlass.cli.options.parameters import json_option
from windlass.cli.options.resource_commands import (
    complete_names,
    confirm_delete,
    suggest_on_conflict,
    yes_option,
)
from windlass.model.errors import InvalidArgument

if TYPE_CHECKING:
    from windlass.cli.output.table import Row
    from windlass.model.templates import TemplateRecord

_NAME = click.argument("name", metavar="NAME", shell_complete=complete_names("templates"))
_FIELDS = click.argument("fields", nargs=-1, metavar="FIELD=VALUE...")


@click.group(
    cls=Group,
    short_help="Manage templates: named sets of job fields.",
    epilog=examples(
        "windlass template create gpu accelerator=a100 timeout=4h",
        "windlass run --template gpu train.py",
    ),
)
def command() -> None:
    """Create, list and change templates, which are named sets of job fields.

    A template fills in fields that a job leaves unset.
    """


@command.command(
    name="ls",
    short_help="List templates.",
    epilog=examples(
        "windlass template ls",
    ),
)
@json_option
def list_templates(as_json: bool) -> None:
    """List templates with their fields."""
    from windlass.cli.options.resource_commands import print_list
    from windlass.cli.output.table import Column
    from windlass.client.client import default_client

    columns = [
        Column("ID", is_number=True),
        Column("TEMPLATE", shrinks=True),
        Column("FIELDS", shrinks=True),
        Column("CREATED", is_number=True),
    ]
    nothing = "There is no template yet: windlass template create big cpus=4 timeout=4h"
    print_list(default_client().list_templates(), columns, _row, nothing, as_json=as_json)


def _row(record: TemplateRecord, now: float) -> Row:
    from windlass.cli.output.table import Cell
    from windlass.cli.output.text import clean, format_ago

    summary = " ".join(f"{name}={value}" for name, value in format_fields(record.fields).items())
    created = Cell(format_ago(record.created, now), "dim")
    return [str(record.id), clean(record.name), clean(summary), created]


@command.command(
    short_help="Show the fields of a template.",
    epilog=examples(
        "windlass template show gpu",
    ),
)
@_NAME
@json_option
def show(name: str, as_json: bool) -> None:
    """Show a template's fields."""
    from windlass.cli.output.json import print_json
    from windlass.cli.output.sections import print_section
    from windlass.cli.output.text import clean, format_moment, paint
    from windlass.client.client import default_client

    record = default_client().get_template(name).record
    if as_json:
        print_json(record)
        return
    title = f"{paint('Template', bold=True)} {clean(record.name)}"
    print(f"{title}  {clean(record.description)}".rstrip())
    by = f" by {record.user}" if record.user else ""
    print_section("", iter([("created", format_moment(record.created) + by)]))
    print_section("Fields", iter(format_fields(record.fields).items()))


@command.command(
    short_help="Create a template.",
    epilog=examples(
        "windlass template create gpu accelerator=a100 timeout=4h env.SEED=7",
        "windlass template create tables cpus=4 'packages=[\"pandas\"]'",
    ),
)
@click.argument("name", metavar="NAME")
@_FIELDS
@click.option("--description", default="", metavar="TEXT", help="Description.")
@click.pass_context
def create(ctx: click.Context, name: str, fields: tuple[str, ...], description: str) -> None:
    """Create a template. It can have the same fields as wl.Job and wl.run."""
    from windlass.client.client import default_client

    with _errors_without_function_names(), suggest_on_conflict(f"windlass template show {name}"):
        values = read_fields(ctx, fields)
        made = default_client().create_template(name, description=description, **values)
    print(
        f"Template {made.name} is created. To use it: windlass run --template {made.name} train.py"
    )


@command.command(
    name="set",
    short_help="Change the fields of a template.",
    epilog=examples(
        "windlass template set gpu timeout=8h",
        "windlass template set gpu env.SEED=",
    ),
)
@_NAME
@_FIELDS
@click.pass_context
def put(ctx: click.Context, name: str, fields: tuple[str, ...]) -> None:
    """Change a template's fields. FIELD= without a value removes a field.

    Existing trials do not change.
    """
    from windlass.client.client import default_client

    template = default_client().get_template(name)
    with _errors_without_function_names():
        template.set_fields(**_merge_fields(template.fields, read_fields(ctx, fields)))
    summary = " ".join(f"{key}={value}" for key, value in format_fields(template.fields).items())
    print(f"Template {template.name} is: {summary or 'empty'}")


@command.command(
    name="rm",
    short_help="Delete a template.",
    epilog=examples(
        "windlass template rm gpu",
    ),
)
@_NAME
@yes_option
@click.pass_context
def remove(ctx: click.Context, name: str, yes: bool) -> int:
    """Delete a template. Existing trials do not change."""
    from windlass.client.client import default_client

    template = default_client().get_template(name)
    if not confirm_delete(ctx, f"the template {template.name}", yes=yes):
        return 1
    template.delete()
    print(f"Template {template.name} is deleted.")
    return 0


@contextmanager
def _errors_without_function_names() -> Iterator[None]:
    """Remove the names of Python functions from errors raised in the `with` block."""
    try:
        yield
    except InvalidArgument as error:
        message = error.message.removeprefix("wl.create_template: ")
        message = message.removeprefix("template.set_fields: ")
        # A field's name must keep its spelling.
        if not message.partition(" ")[0].endswith(":"):
            message = message[0].upper() + message[1:]
        raise InvalidArgument(message, hint=error.hint) from None


def read_fields(ctx: click.Context, words: Sequence[str]) -> dict[str, Any]:
    """Parse fields such as `cpus=4 env.SEED=7`.

    A value that is not valid JSON is taken as a string. An empty value means None.
    """
    fields: dict[str, Any] = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign or not name:
            raise click.UsageError(f"{word!r} is not FIELD=VALUE.", ctx)
        outer, dot, inner = name.partition(".")
        if dot:
            fields.setdefault(outer, {})[inner] = text or None
        else:
            fields[name] = _value(text)
    return fields


def format_fields(fields: Mapping[str, Any]) -> dict[str, str]:
    """Format fields in command-line syntax.

    >>> format_fields({"cpus": 4, "env": {"SEED": "7"}, "labels": ["a"]})
    {'cpus': '4', 'env.SEED': '7', 'labels': '["a"]'}
    """
    texts: dict[str, str] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            texts |= {f"{name}.{key}": str(item) for key, item in value.items()}
        else:
            texts[name] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return texts


def _merge_fields(fields: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**fields, **changes}
    for name, value in changes.items():
        if isinstance(value, dict) and isinstance(fields.get(name), dict):
            merged[name] = {**fields[name], **value}
        if isinstance(merged[name], dict):
            merged[name] = {key: item for key, item in merged[name].items() if item is not None}
            merged[name] = merged[name] or None
    return merged


def _value(text: str) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
