"""Shows a search's progress, as a table in a terminal, or else as one line per trial."""

from __future__ import annotations

import time

from windlass.client.terminal.experiment_progress import what_it_raised
from windlass.client.terminal.live_lines import Line
from windlass.model.text.quantities import format_duration
from windlass.search.policy import SearchPolicy, SearchState, SearchTrial
from windlass.search.result import build_search_table, counts, eta_text, metric_text

_COLOURS = {
    "running": "cyan",
    SearchState.COMPLETE.value: "green",
    SearchState.FAILED.value: "red",
    SearchState.UNREPORTED.value: "red",
    SearchState.STOPPED.value: "magenta",
    SearchState.INTERRUPTED.value: "magenta",
}
_MOST_ROWS = 16


class ProgressTable:
    """The lines that show a search's progress.

    `update` prepares the lines in advance, because another thread draws them.
    """

    def __init__(self, policy: SearchPolicy, concurrent: int) -> None:
        self._policy = policy
        self._concurrent = concurrent
        self._began = time.monotonic()
        self._body: list[Line] = []
        self._head: list[tuple[str, str]] = [("search ", "bold"), (repr(policy.name), "name")]
        self._left = ""
        self._reported = 0  # the number of ended trials that were already printed

    def begin_after(self, ended: int) -> None:
        """Set how many trials had already ended when this process started."""
        self._reported = ended

    def update(self) -> None:
        """Update the progress table from the search's current state."""
        policy = self._policy
        done, whole = len(policy.ended), len(policy.ended) + len(policy.running) + policy.to_begin
        head = [
            ("search ", "bold"),
            (repr(policy.name), "name"),
            (f"  {done} of {whole} trials: ", ""),
        ]
        for index, (word, number) in enumerate(counts(policy).items()):
            head += [
                (", " if index else "", ""),
                (f"{number} {word}", _COLOURS.get(word, "yellow")),
            ]
        body: list[Line] = []
        if (best := policy.best) is not None:
            params = " ".join(f"{name}={_short(value)}" for name, value in best.params.items())
            body.append(
                [
                    ("  best: ", ""),
                    (metric_text(policy, best), "green"),
                    (f"  trial {best.record.id}  ", "dim"),
                    (params, ""),
                ]
            )
        running = policy.running[:_MOST_ROWS]
        if running:
            lines = str(build_search_table(policy, running)).splitlines()
            body.append([(f"  {lines[0]}", "dim")])
            body += [[(f"  {line}", "")] for line in lines[1:]]
        self._left = eta_text(policy, self._concurrent)
        self._head, self._body = head, body  # in one statement, because another thread reads both

    def lines(self) -> list[Line]:
        """Return the lines of the current progress table."""
        passed = format_duration(int(time.monotonic() - self._began))
        clock = f"  {passed}, {self._left}" if self._left else f"  {passed}"
        return [[*self._head, (clock, "dim")], *self._body]

    def describe_end(self, tried: SearchTrial) -> str:
        """Return one line about an ended trial, for output without a table."""
        policy = self._policy
        self._reported += tried.state is not SearchState.INTERRUPTED
        params = " ".join(f"{name}={_short(value)}" for name, value in tried.params.items())
        what = tried.state.value
        if tried.state in (SearchState.COMPLETE, SearchState.PRUNED):
            at = f" at step {tried.step}" if tried.state is SearchState.PRUNED else ""
            what += f"{at}, {metric_text(policy, tried)}"
        elif reason := what_it_raised(tried.record) or tried.record.message:
            what += f": {reason.splitlines()[0]}"
        mark = " (best so far)" if policy.best is tried else ""
        whole = len(policy.ended) + len(policy.running) + policy.to_begin
        return f"[{self._reported}/{whole}] trial {tried.record.id} {what}{mark}  {params}"


def _short(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 24 else f"{text[:23]}…"
