"""Base classes for resources with labels, descriptions, notes and metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from windlass.client.arguments.metadata_checks import check_labels, check_name, check_text
from windlass.client.resources.base import Record, Resource

if TYPE_CHECKING:
    from typing_extensions import Self


class LabelledRecord(Record, Protocol):
    """The record of a resource with labels."""

    @property
    def labels(self) -> tuple[str, ...]: ...


class DescribedRecord(LabelledRecord, Protocol):
    """The record of a resource with a description and notes."""

    @property
    def description(self) -> str: ...

    @property
    def notes(self) -> str: ...


class MetadataRecord(Record, Protocol):
    """The record of a resource with metadata."""

    @property
    def metadata(self) -> dict[str, Any]: ...


LabelledT = TypeVar("LabelledT", bound=LabelledRecord)
DescribedT = TypeVar("DescribedT", bound=DescribedRecord)
MetadataT = TypeVar("MetadataT", bound=MetadataRecord)


class Labelled(Resource[LabelledT]):
    """A resource with labels, such as a trial, an experiment or a model.

    The server adds and removes labels individually, so that concurrent changes do not overwrite
    each other.
    """

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in the order in which they were added. Lists can be filtered by label.

        ```python
        trial = train.submit(0.1)
        trial.add_label("baseline", "paper")
        assert trial.labels == ("baseline", "paper")
        ```
        """
        return self._record.labels

    def set_labels(self, labels: Sequence[str]) -> Self:
        """Replace all labels with the given ones.

        ```python
        train.submit(0.1).set_labels(["baseline"])
        ```
        """
        return self._change(labels=check_labels(labels))

    def add_label(self, *labels: str) -> Self:
        """Add labels to the existing labels.

        ```python
        wl.get_experiment("train").add_label("paper")
        ```
        """
        return self._change(add_labels=check_labels(labels))

    def remove_label(self, *labels: str) -> Self:
        """Remove labels. Unknown labels are ignored.

        ```python
        wl.get_experiment("train").remove_label("paper")
        ```
        """
        return self._change(remove_labels=check_labels(labels))


class Described(Labelled[DescribedT]):
    """A resource with a description and notes, such as a trial or an experiment."""

    @property
    def description(self) -> str:
        """A text that describes the resource."""
        return self._record.description

    @property
    def notes(self) -> str:
        """User-written notes about the resource, such as findings or plans."""
        return self._record.notes

    def set_name(self, name: str) -> Self:
        """Rename the resource. A name is one line of 1 to 200 printable characters.

        ```python
        wl.get_trial(3).set_name("baseline")
        ```
        """
        return self._change(name=check_name("name", name))

    def set_description(self, text: str) -> Self:
        """Replace the description of the resource.

        ```python
        wl.get_experiment("train").set_description("How much the learning rate matters.")
        ```
        """
        return self._change(description=check_text("description", text))

    def set_notes(self, text: str) -> Self:
        """Replace the notes about the resource.

        ```python
        experiment = wl.get_experiment("train")
        experiment.set_notes(experiment.notes + "0.3 diverges.\\n")
        ```
        """
        return self._change(notes=check_text("notes", text))


class HasMetadata(Resource[MetadataT]):
    """A resource with metadata, such as a model. Metadata maps names to JSON values."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata, a mapping from names to JSON values."""
        return self._record.metadata

    def add_metadata(self, **metadata: Any) -> Self:
        """Set metadata entries to JSON values. All other entries stay unchanged."""
        from windlass.client.arguments.metadata_checks import check_config

        return self._change(put_metadata=check_config(metadata))

    def remove_metadata(self, *names: str) -> Self:
        """Remove metadata entries by name. Unknown names are ignored."""
        return self._change(remove_metadata=names)
