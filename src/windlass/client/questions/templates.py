"""Making templates, and asking for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.pages import Listing, walk
from windlass.client.questions.asker import Asker, which
from windlass.client.transport import path_of
from windlass.model.errors import WindlassError

if TYPE_CHECKING:  # most that ask something ask nothing of these
    from windlass.client.templates import Template


class TemplateQuestions(Asker):
    """Templates: made, found, listed."""

    def create_template(self, /, name: str, *, description: str = "", **fields: Any) -> Template:
        """A new template: fields of jobs under a name. What no job could have is refused now.

        The fields are those of `wl.Job` and `wl.run`: `cpus`, `memory`, `accelerator`, `env`,
        `packages`, `volumes`, `secrets` (names alone), `retries`, `timeout`, `replicas`,
        `framework`, `restart_policy`, `priority`, `labels` and so on.

        ```python
        big = wl.create_template("big", cpus=2, retries=1, labels=["big"])
        print(big.fields)
        big.delete()
        ```
        """
        import uuid

        from windlass.authoring.templates import checked_fields
        from windlass.client.attributes import check_text
        from windlass.client.models import own_name
        from windlass.client.templates import Template
        from windlass.model import names
        from windlass.model.templates import CreateTemplate, TemplateRecord

        try:
            names.check(names.proper_flaw(name, "template"))
            request = CreateTemplate(
                key=uuid.uuid4().hex,  # a request that is sent twice makes one
                name=name,
                description=check_text("description", description),
                fields=checked_fields(fields, "wl.create_template"),
                user=own_name(),
            )
            record = self.transport.ask("POST", "/templates", TemplateRecord, body=request)
            return Template(self.transport, record)
        except WindlassError as error:
            failure = error.with_traceback(None)  # our frames tell users nothing
        raise failure

    def get_template(self, id_or_name: int | str) -> Template:
        """The template of that name or id.

        ```python
        wl.create_template("tiny", cpus=0.1)
        print(wl.get_template("tiny").fields)
        wl.get_template("tiny").delete()
        ```
        """
        from windlass.client.templates import Template
        from windlass.model.templates import TemplateRecord

        path = path_of("templates", *which(id_or_name, "template"))
        return Template(self.transport, self.transport.ask("GET", path, TemplateRecord))

    def list_templates(
        self, *, name: str | None = None, sort_by: str = "id", limit: int | None = None
    ) -> Listing[Template]:
        """Templates, lazily, a page at a time.

        ```python
        for template in wl.list_templates(sort_by="name"):
            print(template.name, template.fields)
        ```
        """
        from windlass.client.templates import Template
        from windlass.model.templates import TemplatePage

        query = {"name": name, "sort": sort_by}
        pages = walk(self.transport, "/templates", TemplatePage, query, limit)
        return pages.each(lambda record: Template(self.transport, record))
