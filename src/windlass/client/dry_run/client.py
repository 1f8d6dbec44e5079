"""The client and trials of dry runs, which submit nothing and start no server."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec

from windlass.client.client import Client
from windlass.client.connection.discovery import Endpoint, running_endpoint
from windlass.client.connection.transport import Body, Transport
from windlass.client.resources.trial.outcome import Outcome
from windlass.client.resources.trial.trial import Trial
from windlass.model.errors import InvalidArgument, ServerError, Unsupported
from windlass.model.hardware.resources import Capacity
from windlass.model.records import TrialRecord, TrialState
from windlass.model.requests import CreateTrial, ServerInfo
from windlass.model.text.quantities import format_size
from windlass.model.thread_safe_types import learned
from windlass.packaging.draft import Draft, mask

if TYPE_CHECKING:
    from typing_extensions import Self

R = TypeVar("R")
T = TypeVar("T")


class NothingRan(Unsupported):
    """Raised when a dry run is asked for results, which it cannot have because nothing ran."""


# Users catch this error as `wl.Unsupported`, so tracebacks show that name.
NothingRan.__module__, NothingRan.__qualname__ = "windlass", "Unsupported"


class DryTransport(Transport):
    """A transport that submits and uploads nothing. It only reads templates from the server."""

    @property
    def endpoint(self) -> Endpoint:
        """The server that a real run would use.

        If no server is running, this is the embedded server that a real run would start.
        """
        if self._home is None:
            return super().endpoint
        return running_endpoint(self._home) or Endpoint("", "", self._home)

    def reconnect(self) -> None:
        """Do nothing, because a dry run has no connection."""

    def ask(
        self,
        method: str,
        path: str,
        answer: type[T],
        *,
        body: Body = None,
        query: Mapping[str, Any] | None = None,
    ) -> T:
        """Answer a request without submitting anything.

        Templates are fetched from the server. The list of blobs that the server lacks is always
        empty, so that nothing is uploaded. All other requests raise `wl.Unsupported`.
        """
        if (method, path) == ("GET", "/blobs"):
            return msgspec.convert({}, learned(answer))
        if method == "GET" and path.startswith("/templates/"):
            return self._template(path, answer)
        return super().ask(method, path, answer, body=body, query=query)

    def _template(self, path: str, answer: type[T]) -> T:
        """Fetch a template from the selected server, which must be running."""
        endpoint = self.endpoint
        if not endpoint.url:
            raise ServerError(
                "The template is on the server, and no server runs.",
                hint="Start it: windlass server start",
            )
        # A transport with an explicit endpoint never starts a server.
        server = Transport(endpoint=endpoint, timeout=5.0)
        return server.ask("GET", path, answer)

    def _send(self, *_args: object) -> NoReturn:
        raise nothing_ran()


class DryClient(Client):
    """A client that prints submitted jobs instead of sending them."""

    def __init__(self, server: str | None = None, token: str | None = None) -> None:
        self.transport = DryTransport(server, token)
        self.trials: dict[str, DryTrial[Any]] = {}  # the printed trials, by key
        self._shown: DryTrial[Any] | None = None  # the trial that was printed last
        self._machine: Capacity | None = None

    def submit(self, draft: Draft) -> DryTrial[Any]:
        """Print what would run. Raise an error if the server would reject the request.

        For a trial similar to the previously printed one, print only the differences.
        """
        key = draft.request.key
        if key not in self.trials:
            trial = self.preview(draft)
            trial.show(self._shown)
            self.trials[key] = self._shown = trial
        return self.trials[key]

    def submit_all(self, drafts: Sequence[Draft]) -> list[Trial[Any]]:
        """Print what would run for each draft."""
        return [self.submit(draft) for draft in drafts]

    def preview(self, draft: Draft) -> DryTrial[Any]:
        """Return a trial that can show what would run, without printing anything."""
        return DryTrial(self.transport, draft, self._check(draft.request))

    def _check(self, request: CreateTrial) -> str:
        """Check a request as the server would.

        Describe whether there is enough capacity for the job.
        """
        from windlass.engine.fits_machine import check_fits
        from windlass.frameworks import find_framework_problems
        from windlass.machine.unsupported import find_unsupported

        spec = request.spec
        endpoint = self.transport.endpoint
        problems = find_framework_problems(spec)
        is_here = spec.capabilities.runs_on_server
        if endpoint.is_embedded and is_here:
            problems += find_unsupported(spec)
        if problems:
            raise InvalidArgument.of(problems)
        if not is_here:
            return "not checked: the cluster checks it at submission"
        capacity = self._capacity(endpoint)
        if capacity is None:
            return f"not checked: {endpoint.url} does not answer"
        check_fits(spec, capacity, request.name or request.experiment)
        where = "this machine" if endpoint.is_embedded else endpoint.url
        return f"fits {where} ({_described(capacity)})"

    def _capacity(self, endpoint: Endpoint) -> Capacity | None:
        """Return the capacity of the server's machine, or of this one if no server is running."""
        if endpoint.url:
            try:  # an explicit endpoint never starts a server
                server = Transport(endpoint=endpoint, timeout=5.0)
                return server.ask("GET", "/server", ServerInfo).capacity
            except ServerError:
                if not endpoint.is_embedded:
                    return None
        if self._machine is None:
            from windlass.machine.capacity import read_capacity

            self._machine = read_capacity()
        return self._machine


class DryTrial(Trial[R]):
    """A trial of a dry run, which shows what would run but has no results.

    ```python
    trial = wl.Job(wl.Command(["echo", "hello"])).submit(dry_run=True)
    assert "echo hello" in trial.preview
    trial.wait()  # there is nothing to wait for
    ```

    Methods and properties that need results, such as a log or a value, raise `wl.Unsupported`.
    """

    def __init__(self, transport: Transport, draft: Draft, capacity_note: str = "") -> None:
        super().__init__(transport, _record_of(draft.request))
        self._draft = draft
        self._capacity_note = capacity_note

    @property
    def state(self) -> str:
        """Always "DRY", a state that real trials never have."""
        return "DRY"

    @property
    def is_finished(self) -> bool:
        """Always True, because there is nothing to wait for."""
        return True

    @property
    def summary_metrics(self) -> NoReturn:
        """Raise `wl.Unsupported`, because a dry run has no metrics."""
        raise nothing_ran()

    @property
    def preview(self) -> str:
        """The text that the dry run prints for this trial."""
        from windlass.client.dry_run.preview import format_preview

        return self._masked(format_preview(self._draft, self._capacity_note))

    @property
    def commands(self) -> dict[str, str]:
        """Each role's command, as a user would type it.

        A function appears as a Python call.
        """
        from windlass.client.dry_run.preview import commands_of

        return {role: self._masked(text) for role, text in commands_of(self._draft).items()}

    def show(self, before: DryTrial[Any] | None = None) -> None:
        """Print the preview, or only its differences from `before`, a similar trial."""
        from windlass.client.dry_run.preview import format_difference, format_preview
        from windlass.client.terminal.screen import may_colour, write

        if sys.stdout is None:
            return  # stdout was closed before Python started
        coloured = may_colour(sys.stdout)
        if before is None:
            text = format_preview(self._draft, self._capacity_note, coloured=coloured)
        else:
            text = format_difference(self._draft, before._draft, coloured=coloured)
        write(sys.stdout, self._masked(text) + "\n")
        sys.stdout.flush()

    def refresh(self) -> Self:
        """Return this object unchanged, because the server has no record of it."""
        return self

    def outcome(self, *_how: object, **_options: object) -> Outcome:
        """Raise `wl.Unsupported`, because a dry run has no outcome."""
        raise nothing_ran()

    def _change(self, **_changes: Any) -> Self:
        """Return this object without changing anything.

        The caller has already checked the arguments.
        """
        return self

    def _masked(self, text: str) -> str:
        masked: str = mask(text, self._draft.request.private.secrets.values())
        return masked

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle this object as an ordinary `Trial`, with only its record."""
        return Trial(self._transport, self._record).__reduce__()

    def __repr__(self) -> str:
        return f"<DryTrial {self.name}: nothing ran>"


def nothing_ran() -> NothingRan:
    """Build the error for requests that need a real run's results."""
    return NothingRan("Nothing ran: this was a dry run.", hint="Remove dry_run=True to run it.")


def _record_of(request: CreateTrial) -> TrialRecord:
    return TrialRecord(
        id=0,
        uid=request.key,
        name=request.name or request.experiment,
        experiment=request.experiment,
        experiment_id=request.experiment_id or 0,
        project=request.project,
        state=TrialState.QUEUED,
        message="nothing ran: this was a dry run",
        params=request.params,
        spec=request.spec,
        provenance=request.provenance,
        labels=request.labels,
        auxiliary=request.auxiliary,
        parent_id=request.parent_id,
        recipe=request.recipe,
    )


def _described(capacity: Capacity) -> str:
    parts = [f"{capacity.cpus:g} CPU" + ("" if capacity.cpus == 1 else "s")]
    parts.append(format_size(capacity.memory))
    kinds = [device.kind for device in capacity.devices]
    parts += [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]
    return ", ".join(parts)
