"""Compiles conditions of the `where` language to SQL.

Every value is a bound parameter, and every column name comes from a fixed list. A comparison with a
missing value is false, except for `= null`. Conditions are therefore never null, and `not` always
inverts them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

from windlass.model.errors import InvalidArgument
from windlass.model.records import TrialKind, TrialState
from windlass.model.text.times import parse_time
from windlass.server.db.dialect import UNINDEXED_TRIAL_ID, contains, json_elements
from windlass.server.db.paging import Conditions
from windlass.server.db.project_names import require_project
from windlass.server.db.where_parser import (
    METRIC,
    PARAMETER,
    Comparison,
    DateLiteral,
    Duration,
    Junction,
    Name,
    Not,
    Tree,
    Value,
    where_error,
)

_TEXTS = {"name": "trials.name", "user": 'trials."user"'}
_CHOICES = {
    "state": ("trials.state", [state.value for state in TrialState]),
    "kind": ("trials.kind", [kind.value for kind in TrialKind]),
}
_TIMES = {"created": "trials.created", "started": "trials.started", "ended": "trials.ended"}


def duration_at(now: str) -> str:
    """Return SQL for a trial's run time. A running trial's time counts up to `now`."""
    return f"coalesce(trials.ended, {now}) - trials.started"


class WhereCompiler:
    """Compiles a `where` text to an SQL condition.

    There are two ways to search the rows of parameters and metrics. Without `is_lookup`, one scan
    finds all trials that have a matching row, at a cost that does not depend on the query's other
    conditions. With `is_lookup`, the query looks up each trial's row, which is faster if the query
    reads few trials.
    """

    def __init__(
        self, conditions: Conditions, text: str, now: float, *, is_lookup: bool = False
    ) -> None:
        self._conditions = conditions
        self._text = text
        self._now = now
        self._is_lookup = is_lookup
        self._id = "trials.id"
        self.names: list[Name] = []
        # Comparisons between a parameter and a number in quotes.
        self.quoted: list[tuple[Name, str]] = []
        self.mentions_kind = False

    def condition(self, tree: Tree) -> str:
        """Return the SQL condition for the syntax tree of a `where` text."""
        if isinstance(tree, Not):
            self._id = UNINDEXED_TRIAL_ID
            return f"NOT {self.condition(tree.part)}"
        if isinstance(tree, Junction):
            if tree.operator == "or":
                self._id = UNINDEXED_TRIAL_ID
            return f"({f' {tree.operator.upper()} '.join(map(self.condition, tree.parts))})"
        return f"({self._comparison(tree)})"

    def _comparison(self, comparison: Comparison) -> str:
        kind = comparison.name.kind
        if kind == PARAMETER:
            return self._compare_parameter(comparison)
        if kind == METRIC:
            return self._compare_metric(comparison)
        if kind in _TEXTS:
            return self._compare_text(comparison, _TEXTS[kind])
        if kind in _CHOICES:
            return self._compare_choice(comparison)
        if kind in _TIMES:
            return self._compare_number(comparison, _TIMES[kind], self._moment)
        if kind == "duration":
            span = duration_at(self._conditions.bind(self._now))
            return self._compare_number(comparison, span, self._seconds)
        if kind == "id":
            return self._compare_number(comparison, "trials.id", self._number)
        if kind == "experiment":
            return self._compare_experiment(comparison)
        if kind == "project":
            return self._compare_project(comparison)
        return self._compare_labels(comparison)

    # -- parameters and metrics -------------------------------------------------------

    def _compare_parameter(self, comparison: Comparison) -> str:
        self.names.append(comparison.name)
        if comparison.values == (None,) and comparison.operator in ("=", "!="):
            is_in = "NOT IN" if comparison.operator == "=" else "IN"
            return self._in_table("parameters", comparison.name, "", is_in)
        stored = " OR ".join(self._stored(comparison, value) for value in comparison.values)
        if comparison.operator == "!=":
            stored = f"(number IS NOT NULL OR text IS NOT NULL) AND NOT coalesce({stored}, FALSE)"
        return self._in_table("parameters", comparison.name, stored)

    def _stored(self, comparison: Comparison, value: Value) -> str:
        """Return the SQL condition that compares a parameter's row with a value.

        The condition might be null instead of false.
        """
        if value is None:
            raise self._error(comparison, "null can only be compared with =, != and is.")
        operator = "=" if comparison.operator in ("in", "!=") else comparison.operator
        if operator in ("contains", "like"):
            match = self._match("text", operator, self._text_value(comparison, value))
            return f"(text IS NOT NULL AND {match})"  # lets SQLite use the index on texts
        if isinstance(value, bool):
            if operator != "=":
                raise self._error(comparison, "true and false can only be compared with = and !=.")
            text = self._conditions.bind("true" if value else "false")
            return f"(number IS NOT NULL AND text = {text})"
        if _is_nan(value):
            return self._stored(comparison, "nan")  # JSON has no NaN, so it is stored as a text
        if isinstance(value, str):
            if _reads_as_number(value):
                self.quoted.append((comparison.name, value))
            return f"text {operator} {self._conditions.bind(value)}"
        return f"number {operator} {self._conditions.bind(self._seconds(comparison, value))}"

    def _compare_metric(self, comparison: Comparison) -> str:
        self.names.append(comparison.name)
        column = comparison.name.aspect
        if comparison.values == (None,) and comparison.operator in ("=", "!="):
            is_in = "NOT IN" if comparison.operator == "=" else "IN"
            return self._in_table("summaries", comparison.name, "", is_in)
        if any(map(_is_nan, comparison.values)):  # a reported NaN is stored as NULL
            if comparison.operator not in ("=", "!=") or len(comparison.values) > 1:
                raise self._error(comparison, "nan can only be compared with =, != and is.")
            is_null = f"{column} IS {'NOT ' if comparison.operator == '!=' else ''}NULL"
            return self._in_table("summaries", comparison.name, is_null)
        condition = self._number_condition(comparison, column, self._seconds)
        return self._in_table("summaries", comparison.name, condition)

    def _in_table(self, table: str, name: Name, part: str, is_in: str = "IN") -> str:
        """Return the SQL condition that `table` contains a row of this name for a trial.

        The row must also meet the condition `part`. If `is_in` is "NOT IN", the condition is
        inverted.
        """
        condition = f"name = {self._conditions.bind(name.name)}"
        if part:
            condition += f" AND ({part})"
        elif table == "parameters":
            condition += " AND (number IS NOT NULL OR text IS NOT NULL)"
        if self._is_lookup:
            exists = "NOT EXISTS" if is_in == "NOT IN" else "EXISTS"
            return f"{exists} (SELECT 1 FROM {table} WHERE {condition} AND trial_id = trials.id)"
        return f"{self._id} {is_in} (SELECT trial_id FROM {table} WHERE {condition})"

    # -- attributes -------------------------------------------------------------------

    def _compare_number(
        self, comparison: Comparison, column: str, read: Callable[[Comparison, Value], float]
    ) -> str:
        condition = self._number_condition(comparison, f"({column})", read)
        return f"coalesce({condition}, FALSE)"

    def _number_condition(
        self, comparison: Comparison, column: str, read: Callable[[Comparison, Value], float]
    ) -> str:
        """Return the SQL condition that compares a column of numbers with a comparison's values.

        If the number is missing, the condition is null. SQLite can use an index to check the
        condition.
        """
        if comparison.operator in ("contains", "like"):
            raise self._error(
                comparison,
                f"{comparison.source} is a number: {comparison.operator} is for strings.",
            )
        if comparison.values == (None,) and comparison.operator in ("=", "!="):
            return f"{column} IS {'NOT ' if comparison.operator == '!=' else ''}NULL"
        values = [self._conditions.bind(read(comparison, value)) for value in comparison.values]
        if comparison.operator == "in":
            return f"{column} IN ({', '.join(values)})"
        return f"{column} {comparison.operator} {values[0]}"

    def _compare_text(self, comparison: Comparison, column: str) -> str:
        texts = [self._text_value(comparison, value) for value in comparison.values]
        if comparison.operator == "in":
            return f"{column} IN ({', '.join(map(self._conditions.bind, texts))})"
        return self._match(column, comparison.operator, texts[0])

    def _compare_choice(self, comparison: Comparison) -> str:
        column, choices = _CHOICES[comparison.name.kind]
        self.mentions_kind = self.mentions_kind or comparison.name.kind == "kind"
        if comparison.operator not in ("=", "!=", "in"):
            raise self._error(
                comparison, f"{comparison.source} can only be compared with =, != and in."
            )
        by_lower = {choice.lower(): choice for choice in choices}
        chosen = []
        for value in comparison.values:
            text = self._text_value(comparison, value)
            if text.lower() not in by_lower:
                near = difflib.get_close_matches(text.lower(), by_lower, n=1)
                listed = f"Choose one of: {', '.join(choices)}."
                hint = f"Did you mean {by_lower[near[0]]}?" if near else listed
                raise self._error(comparison, f"there is no {comparison.source} {text!r}.", hint)
            chosen.append(self._conditions.bind(by_lower[text.lower()]))
        is_in = "NOT IN" if comparison.operator == "!=" else "IN"
        return f"{column} {is_in} ({', '.join(chosen)})"

    def _compare_experiment(self, comparison: Comparison) -> str:
        """Return the SQL condition on a trial's experiment: by id for a number, or else by name."""
        if all(
            isinstance(value, float) and not isinstance(value, bool) for value in comparison.values
        ):
            return self._compare_number(comparison, "trials.experiment_id", self._number)
        positive = comparison._replace(operator="=") if comparison.operator == "!=" else comparison
        subquery = f"SELECT id FROM experiments WHERE {self._compare_text(positive, 'name')}"
        return f"trials.experiment_id {_not(comparison)}IN ({subquery})"

    def _compare_project(self, comparison: Comparison) -> str:
        if comparison.operator not in ("=", "!=", "in"):
            raise self._error(comparison, "project can only be compared with =, != and in.")
        parts = []
        for value in comparison.values:
            project = self._conditions.branch()
            require_project(project, "project_id", self._text_value(comparison, value))
            parts.append(f"experiment_id IN (SELECT id FROM experiments{project.text})")
        either = " OR ".join(f"trials.{part}" for part in parts)
        return f"NOT ({either})" if comparison.operator == "!=" else either

    def _compare_labels(self, comparison: Comparison) -> str:
        """Return the SQL condition on a trial's labels, at least one of which must match a value.

        With `!=`, no label is permitted to equal the value.
        """
        operator = "=" if comparison.operator in ("contains", "in", "!=") else comparison.operator
        if operator not in ("=", "like"):
            raise self._error(
                comparison, "labels can only be compared with contains, =, !=, in and like."
            )
        texts = [self._text_value(comparison, value) for value in comparison.values]
        either = " OR ".join(self._match("value", operator, text) for text in texts)
        subquery = (
            "SELECT labelled.id FROM trials AS labelled WHERE labelled.labels IS NOT NULL"
            f" AND EXISTS (SELECT 1 FROM {json_elements('labelled.labels')} WHERE {either})"
        )
        return f"{self._id} {_not(comparison)}IN ({subquery})"

    # -- values -----------------------------------------------------------------------

    def _match(self, column: str, operator: str, text: str) -> str:
        value = self._conditions.bind(text)
        if operator == "contains":
            return contains(column, value)
        if operator == "like":
            return f"{column} LIKE {value}"
        return f"{column} {operator} {value}"

    def _text_value(self, comparison: Comparison, value: Value) -> str:
        if isinstance(value, str):
            return value
        raise self._error(
            comparison,
            f"{comparison.source} is a string.",
            "Put a string in quotes: name = 'train'",
        )

    def _number(self, comparison: Comparison, value: Value) -> float:
        if isinstance(value, float) and not isinstance(value, (Duration, DateLiteral)):
            return value
        raise self._error(comparison, f"{comparison.source} is a number.")

    def _seconds(self, comparison: Comparison, value: Value) -> float:
        if isinstance(value, float) and not isinstance(value, DateLiteral):
            return float(value)
        raise self._error(
            comparison, f"{comparison.source} is a number, or a duration such as 90s or 4h."
        )

    def _moment(self, comparison: Comparison, value: Value) -> float:
        if isinstance(value, str):
            try:
                return parse_time(value, self._now)
            except ValueError as error:
                raise self._error(comparison, f"{error}.") from error
        if isinstance(value, float) and not isinstance(value, Duration):
            return float(value)
        raise self._error(
            comparison,
            f"{comparison.source} is a time.",
            "Write 2026-11-16, '2026-11-16 10:30', or 2h ago.",
        )

    def _error(self, comparison: Comparison, what: str, hint: str = "") -> InvalidArgument:
        return where_error(self._text, comparison.start, comparison.end, what, hint)


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and value != value


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text != "nan"


def _not(comparison: Comparison) -> str:
    return "NOT " if comparison.operator == "!=" else ""
