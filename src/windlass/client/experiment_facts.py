"""What is known of an experiment: its name, its place, how its trials stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client.metadata import Described
from windlass.client.transport import Transport
from windlass.model.records import ExperimentRecord

if TYPE_CHECKING:
    from weakref import ref

    from typing_extensions import Self

    from windlass.client.blocks import Block
    from windlass.client.trials import Trial


class ExperimentFacts(Described):
    """An experiment as it was last told of, and what was added to it here since."""

    def __init__(
        self, transport: Transport, record: ExperimentRecord, *, waits: bool = False
    ) -> None:
        self._transport = transport
        self._record = record
        self._waits = waits  # for its trials, at the end of a block
        self._blocks: list[Block] = []
        self._handed: list[ref[Trial[Any]]] = []  # the trials that were added here
        self._outdated: ExperimentRecord | None = None  # it does not count what was added since

    @property
    def id(self) -> int:
        """The number by which it can be asked for."""
        return self._record.id

    @property
    def name(self) -> str:
        """What it is called."""
        return self._record.name

    @property
    def project(self) -> str:
        """The project it belongs to."""
        return self._record.project

    @property
    def created(self) -> float:
        """When it was created, in seconds since the epoch."""
        return self._record.created

    @property
    def trial_count(self) -> int:
        """How many trials it has."""
        return self._counted.trials

    @property
    def states(self) -> dict[str, int]:
        """How many trials are in which state."""
        return self._counted.states

    @property
    def state(self) -> str:
        """One of EMPTY, RUNNING, SUCCEEDED, FAILED, STOPPED; auxiliary trials do not count."""
        return self._counted.state.value

    @property
    def record(self) -> ExperimentRecord:
        """Everything above, as one plain struct."""
        return self._record

    def refresh(self) -> Self:
        """Ask the server how it stands now."""
        self._now()
        return self

    def __repr__(self) -> str:
        if self._record is self._outdated:
            return f"<Experiment {self.id} {self.name}>"  # it is no place to ask the server
        many = "1 trial" if self.trial_count == 1 else f"{self.trial_count} trials"
        return f"<Experiment {self.id} {self.name}: {self.state}, {many}>"

    @property
    def _counted(self) -> ExperimentRecord:
        """Its record, with all that was added here counted."""
        return self._now() if self._record is self._outdated else self._record
