"""Templates as users hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.attributes import check_text
from windlass.client.resources import Resource
from windlass.model import names
from windlass.model.templates import ChangeTemplate, TemplateRecord

if TYPE_CHECKING:
    from typing_extensions import Self


class Template(Resource[TemplateRecord]):
    """A named set of job fields: `template=` gives them to a function or a job.

    ```python
    template = wl.create_template("small", cpus=0.5, timeout="10m", env={"SEED": "7"})


    @wl.run(template="small", timeout="1m")  # what it says itself comes first
    def fit(x):
        return 2 * x


    trial = fit.submit(21)
    print(trial.template, trial.resources.cpus)
    template.delete()
    ```
    """

    _nouns = "templates"
    _kind = TemplateRecord
    _changes = ChangeTemplate

    @property
    def fields(self) -> dict[str, Any]:
        """The fields it gives to jobs, by name."""
        return self._record.fields

    @property
    def description(self) -> str:
        """What it is for."""
        return self._record.description

    @property
    def user(self) -> str:
        """Who made it."""
        return self._record.user

    def set_name(self, name: str) -> Self:
        """Call it otherwise; no other template has that name."""
        names.check(names.proper_flaw(name, "template"))
        return self._change(name=name)

    def set_description(self, text: str) -> Self:
        """Say what it is for."""
        return self._change(description=check_text("description", text))

    def set_fields(self, **fields: Any) -> Self:
        """Have these fields and no others. Trials that were made with it stay as they are."""
        from windlass.authoring.templates import checked_fields

        return self._change(fields=checked_fields(fields, "template.set_fields"))

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"<Template {self.name}: {told or 'empty'}>"
