"""Defines `wl.Template`, a named set of job fields."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from windlass.client.arguments.metadata_checks import check_text
from windlass.client.resources.base import Resource, get_resource, list_resources
from windlass.model.errors import WindlassError
from windlass.model.templates import (
    ChangeTemplate,
    CreateTemplate,
    TemplatePage,
    TemplateRecord,
)
from windlass.model.text import names

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from windlass.client.arguments.filters import Filters
    from windlass.client.connection.pages import Listing
    from windlass.client.connection.transport import Transport


class Template(Resource[TemplateRecord]):
    """A named set of job fields. Functions and jobs use it with `template="NAME"`.

    ```python
    template = wl.create_template("small", cpus=0.5, timeout="10m", env={"SEED": "7"})


    @wl.run(template="small", timeout="1m")  # the job's own fields take precedence
    def fit(x):
        return 2 * x


    trial = fit.submit(21)
    print(trial.template, trial.resources.cpus)
    template.delete()
    ```
    """

    _collection = "templates"
    _record_type = TemplateRecord
    _change_type = ChangeTemplate

    @property
    def fields(self) -> dict[str, Any]:
        """The template's job fields, by name."""
        return self._record.fields

    @property
    def description(self) -> str:
        """The template's description."""
        return self._record.description

    @property
    def user(self) -> str:
        """The user who created the template."""
        return self._record.user

    def set_name(self, name: str) -> Self:
        """Rename the template. Template names are unique."""
        names.check(names.proper_flaw(name, "template"))
        return self._change(name=name)

    def set_description(self, text: str) -> Self:
        """Replace the template's description."""
        return self._change(description=check_text("description", text))

    def set_fields(self, **fields: Any) -> Self:
        """Replace all of the template's fields. Trials that already used it do not change."""
        from windlass.authoring.public.templates import check_fields

        return self._change(fields=check_fields(fields, "template.set_fields"))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"<Template {self.name}: {fields or 'empty'}>"


def create_template(
    transport: Transport, name: str, description: str, fields: dict[str, Any]
) -> Template:
    """Create a template, a named set of job fields."""
    from windlass.authoring.public.templates import check_fields
    from windlass.client.resources.model import own_name

    try:
        names.check(names.proper_flaw(name, "template"))
        request = CreateTemplate(
            key=uuid.uuid4().hex,  # makes a retried request harmless
            name=name,
            description=check_text("description", description),
            fields=check_fields(fields, "wl.create_template"),
            user=own_name(),
        )
        record = transport.ask("POST", "/templates", TemplateRecord, body=request)
        return Template(transport, record)
    except WindlassError as error:
        failure = error.with_traceback(None)  # hide Windlass frames from users
    raise failure


def get_template(transport: Transport, id_or_name: int | str) -> Template:
    """Fetch a template by its id or name."""
    return get_resource(transport, Template, id_or_name, "template")


def list_templates(
    transport: Transport, *, sort_by: str, limit: int | None, **filters: Unpack[Filters]
) -> Listing[Template]:
    """List the templates that match the filters, fetching pages on demand."""
    return list_resources(
        transport, Template, TemplatePage, sort_by=sort_by, limit=limit, **filters
    )
