"""Making models, and asking for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.calls import users_call
from windlass.client.pages import Listing, flag, walk
from windlass.client.questions.asker import Asker, which
from windlass.client.scopes import scope
from windlass.client.transport import path_of

if TYPE_CHECKING:  # most that ask something ask nothing of these
    from windlass.client.models import Model
    from windlass.client.places import Project


class ModelQuestions(Asker):
    """Models: made, found, listed."""

    @users_call("wl.create_model")
    def create_model(
        self,
        name: str,
        project: str | None = None,
        description: str = "",
        labels: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        *,
        exist_ok: bool = False,
    ) -> Model:
        """A new model in the registry, without versions; no other on the server has its name.

        ```python
        model = wl.create_model("segmenter", project="vision", labels=["unet"], exist_ok=True)
        print(model.name, model.versions)
        ```

        Args:
            name: what it is called.
            project: the project it belongs to ("default").
            description: what it is about.
            labels: texts to find it by.
            metadata: what is to be noted on it: values that JSON can say, by name.
            exist_ok: whether to take the one of that name, if there is one, as it is.
        """
        import uuid

        from windlass.client.attributes import check_config, check_labels, check_place, check_text
        from windlass.client.models import Model, own_name
        from windlass.model import names
        from windlass.model.registry import CreateModel, ModelRecord

        names.check(names.proper_flaw(name, "model"))
        request = CreateModel(
            key=uuid.uuid4().hex,  # a request that is sent twice makes one
            name=name,
            project=str(check_place("default" if project is None else project)),
            description=check_text("description", description),
            labels=check_labels(labels),
            metadata=check_config(metadata),
            user=own_name(),
            exist_ok=exist_ok,
        )
        record = self.transport.ask("POST", "/models", ModelRecord, body=request)
        return Model(self.transport, record)

    def get_model(self, id_or_name: int | str) -> Model:
        """The model of that name or id.

        ```python
        wl.create_model("classifier", exist_ok=True)
        print(wl.get_model("classifier").latest)
        ```
        """
        from windlass.client.models import Model
        from windlass.model.registry import ModelRecord

        path = path_of("models", *which(id_or_name, "model"))
        return Model(self.transport, self.transport.ask("GET", path, ModelRecord))

    def list_models(
        self,
        *,
        project: Project | str | int | None = None,
        name: str | None = None,
        labels: str | Sequence[str] | None = None,
        archived: bool | None = False,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[Model]:
        """Models that match, lazily, a page at a time; with `labels`, that have them all.

        Archived ones, and those of archived projects, are left out; `archived=True` has only
        them, `None` all.

        ```python
        for model in wl.list_models(sort_by="name"):
            print(model.name, model.versions, model.aliases)
        ```
        """
        from windlass.client.attributes import label_query
        from windlass.client.models import Model
        from windlass.model.registry import ModelPage

        query = {
            **scope("project", project),
            "name": name,
            "labels": label_query(labels),
            "archived": flag(archived),
            "sort": sort_by,
        }
        pages = walk(self.transport, "/models", ModelPage, query, limit)
        return pages.each(lambda record: Model(self.transport, record))
