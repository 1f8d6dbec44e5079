"""SQL of what `where` asks for: every value a bound parameter, every name from a list of ours.

A comparison with what is not there does not hold, `= null` apart; so `not` is always the contrary.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

from windlass.model.errors import InvalidArgument
from windlass.model.records import TrialKind, TrialState
from windlass.model.times import parse_time
from windlass.server.paging import Conditions
from windlass.server.projects import in_project
from windlass.server.where import (
    METRIC,
    PARAMETER,
    Comparison,
    Duration,
    Moment,
    Name,
    Not,
    Several,
    Tree,
    Value,
    fault,
)

_TEXTS = {"name": "trials.name", "user": 'trials."user"'}
_CHOICES = {
    "state": ("trials.state", [state.value for state in TrialState]),
    "kind": ("trials.kind", [kind.value for kind in TrialKind]),
}
_TIMES = {"created": "trials.created", "started": "trials.started", "ended": "trials.ended"}

# SQLite walks along the trials and looks each up in the set, rather than make one list of several.
_LOOKED_UP = "+trials.id"


def duration_at(now: str) -> str:
    """How long a trial ran, or has been running."""
    return f"coalesce(trials.ended, {now}) - trials.started"


class Compiling:
    """One `where` on its way to SQL."""

    def __init__(self, conditions: Conditions, text: str, now: float) -> None:
        self._conditions = conditions
        self._text = text
        self._now = now
        self._id = "trials.id"
        self.names: list[Name] = []
        self.quoted: list[tuple[Name, str]] = []  # parameters compared with a number in quotes
        self.mentions_kind = False

    def condition(self, tree: Tree) -> str:
        """The condition that a tree is."""
        if isinstance(tree, Not):
            self._id = _LOOKED_UP
            return f"NOT {self.condition(tree.part)}"
        if isinstance(tree, Several):
            if tree.how == "or":
                self._id = _LOOKED_UP
            return f"({f' {tree.how.upper()} '.join(map(self.condition, tree.parts))})"
        return f"({self._comparison(tree)})"

    def _comparison(self, it: Comparison) -> str:
        kind = it.name.kind
        if kind == PARAMETER:
            return self._of_parameter(it)
        if kind == METRIC:
            return self._of_metric(it)
        if kind in _TEXTS:
            return self._of_text(it, _TEXTS[kind])
        if kind in _CHOICES:
            return self._of_choice(it)
        if kind in _TIMES:
            return self._of_number(it, _TIMES[kind], self._moment)
        if kind == "duration":
            span = duration_at(self._conditions.name_for(self._now))
            return self._of_number(it, span, self._seconds)
        if kind == "id":
            return self._of_number(it, "trials.id", self._number)
        if kind == "experiment":
            return self._of_experiment(it)
        return self._of_project(it) if kind == "project" else self._of_labels(it)

    # -- parameters and metrics -------------------------------------------------------

    def _of_parameter(self, it: Comparison) -> str:
        self.names.append(it.name)
        if it.values == (None,) and it.operator in ("=", "!="):
            is_in = "NOT IN" if it.operator == "=" else "IN"
            return self._in_table("parameters", it.name, "", is_in)
        if it.operator == "!=":
            return self._in_table("parameters", it.name, f"NOT ({self._stored(it, it.values[0])})")
        return self._in_table(
            "parameters", it.name, " OR ".join(self._stored(it, value) for value in it.values)
        )

    def _stored(self, it: Comparison, value: Value) -> str:
        """What a row of a parameter fulfils; never null, so that its contrary can be asked for."""
        if value is None:
            raise self._fault(it, "null can only be compared with =, != and is.")
        operator = "=" if it.operator in ("in", "!=") else it.operator
        if operator in ("contains", "like"):
            return f"coalesce({self._matching('text', operator, self._a_text(it, value))}, FALSE)"
        if isinstance(value, bool):
            if operator != "=":
                raise self._fault(it, "true and false can only be compared with = and !=.")
            text = self._conditions.name_for("true" if value else "false")
            return f"(number IS NOT NULL AND coalesce(text = {text}, FALSE))"
        if _is_nan(value):
            return self._stored(it, "nan")  # JSON has no such number
        if isinstance(value, str):
            if _reads_as_number(value):
                self.quoted.append((it.name, value))
            return f"coalesce(text {operator} {self._conditions.name_for(value)}, FALSE)"
        number = self._conditions.name_for(self._seconds(it, value))
        return f"coalesce(number {operator} {number}, FALSE)"

    def _of_metric(self, it: Comparison) -> str:
        self.names.append(it.name)
        column = it.name.aspect
        if it.values == (None,) and it.operator in ("=", "!="):
            is_in = "NOT IN" if it.operator == "=" else "IN"
            return self._in_table("summaries", it.name, "", is_in)
        if any(map(_is_nan, it.values)):  # it was reported, and is no number
            if it.operator not in ("=", "!=") or len(it.values) > 1:
                raise self._fault(it, "nan can only be compared with =, != and is.")
            is_null = f"{column} IS {'NOT ' if it.operator == '!=' else ''}NULL"
            return self._in_table("summaries", it.name, is_null)
        return self._in_table("summaries", it.name, self._of_number(it, column, self._seconds))

    def _in_table(self, table: str, name: Name, part: str, is_in: str = "IN") -> str:
        """That a trial has a row of a name that fulfils something.

        All of them are found in one walk along the index, whatever the rest of the list is.
        """
        asked = f"name = {self._conditions.name_for(name.name)}"
        if table == "parameters":
            asked += " AND (number IS NOT NULL OR text IS NOT NULL)"
        if part:
            asked += f" AND ({part})"
        return f"{self._id} {is_in} (SELECT trial_id FROM {table} WHERE {asked})"

    # -- attributes -------------------------------------------------------------------

    def _of_number(
        self, it: Comparison, column: str, read: Callable[[Comparison, Value], float]
    ) -> str:
        if it.operator in ("contains", "like"):
            raise self._fault(it, f"{it.said} is a number: {it.operator} is for texts.")
        if it.values == (None,) and it.operator in ("=", "!="):
            return f"({column}) IS {'NOT ' if it.operator == '!=' else ''}NULL"
        values = [self._conditions.name_for(read(it, value)) for value in it.values]
        if it.operator == "in":
            return f"coalesce(({column}) IN ({', '.join(values)}), FALSE)"
        return f"coalesce(({column}) {it.operator} {values[0]}, FALSE)"

    def _of_text(self, it: Comparison, column: str) -> str:
        texts = [self._a_text(it, value) for value in it.values]
        if it.operator == "in":
            return f"{column} IN ({', '.join(map(self._conditions.name_for, texts))})"
        return self._matching(column, it.operator, texts[0])

    def _of_choice(self, it: Comparison) -> str:
        column, known = _CHOICES[it.name.kind]
        self.mentions_kind = self.mentions_kind or it.name.kind == "kind"
        if it.operator not in ("=", "!=", "in"):
            raise self._fault(it, f"{it.said} can only be compared with =, != and in.")
        by_lower = {each.lower(): each for each in known}
        chosen = []
        for value in it.values:
            text = self._a_text(it, value)
            if text.lower() not in by_lower:
                near = difflib.get_close_matches(text.lower(), by_lower, n=1)
                listed = f"It is one of: {', '.join(known)}."
                hint = f"Did you mean {by_lower[near[0]]}?" if near else listed
                raise self._fault(it, f"there is no {it.said} {text!r}.", hint)
            chosen.append(self._conditions.name_for(by_lower[text.lower()]))
        is_in = "NOT IN" if it.operator == "!=" else "IN"
        return f"{column} {is_in} ({', '.join(chosen)})"

    def _of_experiment(self, it: Comparison) -> str:
        """By its name, or by its number, which is its id."""
        if all(isinstance(value, float) and not isinstance(value, bool) for value in it.values):
            return self._of_number(it, "trials.experiment_id", self._number)
        positive = it._replace(operator="=") if it.operator == "!=" else it
        found = f"SELECT id FROM experiments WHERE {self._of_text(positive, 'name')}"
        return f"trials.experiment_id {_not(it)}IN ({found})"

    def _of_project(self, it: Comparison) -> str:
        if it.operator not in ("=", "!=", "in"):
            raise self._fault(it, "project can only be compared with =, != and in.")
        parts = []
        for value in it.values:
            one = self._conditions.branch()
            in_project(one, "project_id", self._a_text(it, value))
            parts.append(f"experiment_id IN (SELECT id FROM experiments{one.text})")
        either = " OR ".join(f"trials.{part}" for part in parts)
        return f"NOT ({either})" if it.operator == "!=" else either

    def _of_labels(self, it: Comparison) -> str:
        """That one of its labels is so; with `!=`, that none is."""
        operator = "=" if it.operator in ("contains", "in", "!=") else it.operator
        if operator not in ("=", "like"):
            raise self._fault(it, "labels can only be compared with contains, =, !=, in and like.")
        texts = [self._a_text(it, value) for value in it.values]
        either = " OR ".join(self._matching("value", operator, text) for text in texts)
        each = "json_each(CAST(labelled.labels AS TEXT))"  # a blob is no JSON to SQLite
        found = (
            "SELECT labelled.id FROM trials AS labelled WHERE labelled.labels IS NOT NULL"
            f" AND EXISTS (SELECT 1 FROM {each} WHERE {either})"
        )
        return f"{self._id} {_not(it)}IN ({found})"

    # -- values -----------------------------------------------------------------------

    def _matching(self, column: str, operator: str, text: str) -> str:
        value = self._conditions.name_for(text)
        if operator == "contains":
            return f"instr({column}, {value}) > 0"
        if operator == "like":
            return f"{column} LIKE {value}"
        return f"{column} {operator} {value}"

    def _a_text(self, it: Comparison, value: Value) -> str:
        if isinstance(value, str):
            return value
        raise self._fault(it, f"{it.said} is a text.", "A text stands in quotes: name = 'train'")

    def _number(self, it: Comparison, value: Value) -> float:
        if isinstance(value, float) and not isinstance(value, (Duration, Moment)):
            return value
        raise self._fault(it, f"{it.said} is a number.")

    def _seconds(self, it: Comparison, value: Value) -> float:
        if isinstance(value, float) and not isinstance(value, Moment):
            return float(value)
        raise self._fault(it, f"{it.said} is a number, or a duration such as 90s or 4h.")

    def _moment(self, it: Comparison, value: Value) -> float:
        if isinstance(value, str):
            try:
                return parse_time(value, self._now)
            except ValueError as error:
                raise self._fault(it, f"{error}.") from error
        if isinstance(value, float) and not isinstance(value, Duration):
            return float(value)
        raise self._fault(
            it, f"{it.said} is a time.", "Write 2026-11-16, '2026-11-16 10:30', or 2h ago."
        )

    def _fault(self, it: Comparison, what: str, hint: str = "") -> InvalidArgument:
        return fault(self._text, it.start, it.end, what, hint)


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and value != value


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text != "nan"


def _not(it: Comparison) -> str:
    return "NOT " if it.operator == "!=" else ""
