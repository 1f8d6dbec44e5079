"""The `where` language: conditions on trials, parsed into a tree.

    hparams.lr < 0.1 and metrics.loss.min < 0.3 and state = 'FAILED'
    (name contains 'deep' or labels contains 'paper') and created > 2d ago

`where_sql.py` compiles the tree to SQL in which every value is a bound parameter.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from windlass.model.errors import InvalidArgument
from windlass.model.text.quantities import parse_duration
from windlass.model.text.times import parse_time

MAX_LENGTH = 10_000
_MAX_DEPTH = 50
_MAX_COMPARISONS = 100
_MAX_VALUES = 1000
_SHOWN = 60  # characters shown on either side of an error in a long text

PLAIN = (
    "id", "name", "state", "kind", "experiment", "project", "user", "labels",
    "created", "started", "ended", "duration",
)  # fmt: skip
PARAMETER, METRIC = "hparams", "metrics"
ASPECTS = ("last", "min", "max", "mean", "count")  # aspects of a metric; the first is the default
_HEADS = {PARAMETER: PARAMETER, "params": PARAMETER, METRIC: METRIC}
_OPERATORS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">"}
_OPERATORS |= {">=": ">=", "contains": "contains", "like": "like"}
_CONSTANTS: dict[str, float | bool | None] = {"true": True, "false": False, "inf": float("inf")}
_CONSTANTS |= {"null": None, "none": None, "nan": float("nan")}
_RESERVED = {"and", "or", "not", "in", "is", "ago", "contains", "like"}

_UNIT = r"\d+(?:\.\d+)?(?:ms|s|min|m|h|d)"
_TOKEN = re.compile(
    rf"""
    (?P<space>\s+)
  | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<date>\d{{4}}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d)?)?(?![\w]))
  | (?P<duration>(?:{_UNIT})+(?![\w]))
  | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w]))
  | (?P<word>-inf(?![\w])|[^\W\d][\w/-]*)
  | (?P<sign><=|>=|<>|!=|==|[=<>(),.])
    """,
    re.VERBOSE,
)


class Duration(float):
    """A duration in seconds."""


class DateLiteral(float):
    """A point in time, in seconds since the epoch."""


Value = float | str | bool | Duration | DateLiteral | None


class Name(NamedTuple):
    """The name in a comparison: an attribute, a parameter, or one aspect of a metric."""

    kind: str  # one of PLAIN, PARAMETER or METRIC
    name: str = ""
    aspect: str = ""

    def __str__(self) -> str:
        if self.kind not in (PARAMETER, METRIC):
            return self.kind
        quoted = self.name if re.fullmatch(r"[\w/.-]+", self.name) else f'"{self.name}"'
        return ".".join(part for part in (self.kind, quoted, self.aspect) if part)


class Comparison(NamedTuple):
    """A comparison of a field: the field's name, the operator, the values, and the text position.

    Only the operator `in` has more than one value.
    """

    name: Name
    operator: str
    values: tuple[Value, ...]
    start: int
    end: int
    source: str = ""  # the name as written in the text


class Not(NamedTuple):
    """A negated condition."""

    part: Tree


class Junction(NamedTuple):
    """Several conditions that are all joined by `and` or all by `or`."""

    operator: str  # "and" | "or"
    parts: tuple[Tree, ...]


Tree = Comparison | Not | Junction


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


def parse(text: str, now: float) -> Tree:
    """Parse a condition and return its syntax tree.

    >>> parse("hparams.lr <= 0.1", 0.0)
    Comparison(name=Name(kind='hparams', name='lr', aspect=''), operator='<=', values=(0.1,), \
start=0, end=17, source='hparams.lr')
    """
    return _Parser(text, now).parse()


def parse_name(text: str) -> Name | None:
    """Parse the name of a parameter or metric, such as `metrics.loss.min`.

    Return None for any other text.
    """
    try:
        return _Parser(text, 0.0).parse_name()
    except InvalidArgument:
        return None


def where_error(text: str, start: int, end: int, what: str, hint: str = "") -> InvalidArgument:
    """Return the error for an invalid `where` condition.

    The error marks the faulty part of the text.
    """
    begin = max(0, start - _SHOWN) if len(text) > 2 * _SHOWN else 0
    line = text[begin : begin + 2 * _SHOWN].replace("\n", " ").replace("\t", " ")
    before = "…" if begin else ""
    after = "…" if begin + 2 * _SHOWN < len(text) else ""
    marks = "^" * max(1, min(end, begin + 2 * _SHOWN) - start)
    pointed = f"{before}{line}{after}\n{' ' * (start - begin + len(before))}{marks}"
    return InvalidArgument(f"where: {what}", hint=f"{pointed}\n{hint}".rstrip())


class _Parser:
    def __init__(self, text: str, now: float) -> None:
        self._text = text
        self._now = now
        self._tokens = self._split()
        self._at = 0
        self._comparisons = 0
        self._last_name = ""  # the last parsed name, as written in the text

    def parse(self) -> Tree:
        tree = self._disjunction(0)
        if self._next.kind != "end":
            raise self._error(self._next, f"{self._shown(self._next)} is not understood here.",
                         "Join comparisons with and, or.")  # fmt: skip
        return tree

    def parse_name(self) -> Name:
        name = self._name()
        if self._next.kind != "end":
            raise self._error(self._next, "unexpected text after the name.")
        return name

    # -- grammar -------------------------------------------------------------------------

    def _disjunction(self, depth: int) -> Tree:
        return self._joined("or", depth)

    def _joined(self, operator: str, depth: int) -> Tree:
        parts = [self._part(operator, depth)]
        while self._take_word(operator):
            parts.append(self._part(operator, depth))
        return parts[0] if len(parts) == 1 else Junction(operator, tuple(parts))

    def _part(self, operator: str, depth: int) -> Tree:
        return self._joined("and", depth) if operator == "or" else self._term(depth)

    def _term(self, depth: int) -> Tree:
        token = self._next
        if depth > _MAX_DEPTH:
            raise self._error(token, f"it has more than {_MAX_DEPTH} nested levels.")
        if self._take_word("not"):
            return Not(self._term(depth + 1))
        if self._take_sign("("):
            tree = self._disjunction(depth + 1)
            if not self._take_sign(")"):
                raise self._error(token, "this parenthesis is not closed.")
            return tree
        return self._comparison()

    def _comparison(self) -> Tree:
        start = self._next
        self._comparisons += 1
        if self._comparisons > _MAX_COMPARISONS:
            raise self._error(start, f"it has more than {_MAX_COMPARISONS} comparisons.")
        if start.kind in ("text", "number"):
            return self._value_first()
        name = self._name()
        self._last_name = self._text[start.start : self._tokens[self._at - 1].end]
        is_negated = self._take_word("not")
        if self._take_word("in"):
            tree = self._compare(name, "in", self._values(), start)
            return Not(tree) if is_negated else tree
        if is_negated:
            raise self._error(self._next, "after the name and not, write in.")
        if self._take_word("is"):
            operator = "!=" if self._take_word("not") else "="
            if self._take_word("nan"):
                return self._compare(name, operator, (float("nan"),), start)
            if not (self._take_word("null") or self._take_word("none")):
                raise self._error(self._next, "after is, write null, nan, not null or not nan.")
            return self._compare(name, operator, (None,), start)
        operator = self._operator()
        return self._compare(name, operator, (self._value(),), start)

    def _value_first(self) -> Tree:
        """Parse `'paper' in labels`, the only comparison that starts with its value."""
        start = self._next
        value = self._value()
        if self._take_word("in"):
            first, name = self._next, self._name()
            self._last_name = self._text[first.start : self._tokens[self._at - 1].end]
            return self._compare(name, "contains", (value,), start)
        raise self._error(
            start, "a comparison starts with a name.", "For example: hparams.lr < 0.1"
        )

    def _compare(
        self, name: Name, operator: str, values: tuple[Value, ...], start: _Token
    ) -> Comparison:
        end = self._tokens[self._at - 1].end
        return Comparison(name, operator, values, start.start, end, self._last_name)

    def _operator(self) -> str:
        token = self._next
        operator = _OPERATORS.get(token.text.lower()) if token.kind in ("sign", "word") else None
        if operator is None:
            raise self._error(
                token,
                f"after {self._last_name} a comparison must follow, not {self._shown(token)}.",
                f"Use one of: {', '.join(dict.fromkeys(_OPERATORS.values()))}, in.",
            )
        self._at += 1
        return operator

    def _name(self) -> Name:
        first = self._next
        if first.kind != "word":
            token_text = self._shown(first)
            raise self._error(first, f"a name is missing here, before {token_text}.", _NAMES)
        self._at += 1
        parts: list[_Token] = []
        while self._take_sign("."):
            token = self._next
            if token.kind not in ("word", "text", "quoted", "number", "date", "duration"):
                raise self._error(token, "a name is missing after the dot.")
            parts.append(token)
            self._at += 1
        return self._resolve(first, parts)

    def _resolve(self, first: _Token, parts: Sequence[_Token]) -> Name:
        head = first.text.lower()
        if head in PLAIN and not parts:
            return Name(head)
        kind = _HEADS.get(head)
        if kind is None or not parts:
            raise self._error(first, *_unknown(first.text, has_parts=bool(parts), kind=kind))
        texts = [_unquoted(part) for part in parts]
        if kind == PARAMETER:
            return Name(PARAMETER, ".".join(texts))
        aspect = ASPECTS[0]
        if len(parts) > 1 and parts[-1].kind == "word" and texts[-1] in ASPECTS:
            aspect = texts.pop()
        return Name(METRIC, ".".join(texts), aspect)

    def _values(self) -> tuple[Value, ...]:
        opening = self._next
        if not self._take_sign("("):
            raise self._error(
                opening, "write the values of in in parentheses.", "For example: id in (3, 5)"
            )
        values = [self._value()]
        while self._take_sign(","):
            values.append(self._value())
            if len(values) > _MAX_VALUES:
                raise self._error(opening, f"it has more than {_MAX_VALUES} values.")
        if not self._take_sign(")"):
            raise self._error(opening, "this parenthesis is not closed.")
        return tuple(values)

    def _value(self) -> Value:
        token = self._next
        self._at += 1
        if token.kind == "text":
            return _unquoted(token)
        if token.kind == "number":
            return float(token.text)
        if token.kind == "duration":
            is_zero = not re.search("[1-9]", token.text)
            seconds = 0.0 if is_zero else self._read(parse_duration, token)
            return DateLiteral(self._now - seconds) if self._take_word("ago") else Duration(seconds)
        if token.kind == "date":
            return DateLiteral(self._read(parse_time, token))
        if token.kind == "word" and token.text.lower() in _CONSTANTS:
            return _CONSTANTS[token.text.lower()]
        if token.text == "-inf":
            return float("-inf")
        if token.kind == "word" and token.text.lower() not in _RESERVED:
            return token.text  # state = FAILED
        raise self._error(
            token,
            f"a value is missing here, before {self._shown(token)}.",
            "Put a string in quotes: name = 'train'",
        )

    # -- tokens ----------------------------------------------------------------------

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take_word(self, word: str) -> bool:
        return self._take(self._next.kind == "word" and self._next.text.lower() == word)

    def _take_sign(self, sign: str) -> bool:
        return self._take(self._next.kind == "sign" and self._next.text == sign)

    def _take(self, is_match: bool) -> bool:
        self._at += is_match
        return is_match

    def _split(self) -> list[_Token]:
        text, at = self._text, 0
        tokens: list[_Token] = []
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                quote = text[at] in "'\"`"
                what = (
                    "this quote is not closed." if quote else f"{text[at]!r} is not allowed here."
                )
                odd = 'Put a name with special characters in quotes: metrics."loss (m²)"'
                raise where_error(text, at, at + 1, what, "" if quote else odd)
            if match.lastgroup != "space":
                tokens.append(_Token(match.lastgroup or "", match[0], at, match.end()))
            at = match.end()
        return [*tokens, _Token("end", "", len(text), len(text))]

    def _read(self, parse: Callable[[str], float], token: _Token) -> float:
        try:
            return parse(token.text)
        except ValueError as error:
            raise self._error(token, f"{error}.") from error

    def _shown(self, token: _Token) -> str:
        return "the end" if token.kind == "end" else repr(token.text)

    def _error(self, token: _Token, what: str, hint: str = "") -> InvalidArgument:
        return where_error(self._text, token.start, token.end, what, hint)


_NAMES = f"The names are hparams.NAME, metrics.NAME, {', '.join(PLAIN)}."


def _unquoted(token: _Token) -> str:
    if token.kind not in ("text", "quoted"):
        return token.text
    quote = token.text[0]
    return token.text[1:-1].replace(quote * 2, quote)


def _unknown(word: str, *, has_parts: bool, kind: str | None) -> tuple[str, str]:
    """Return an error message and a hint about an unknown name in a `where` condition."""
    word = word if len(word) <= _SHOWN else f"{word[:_SHOWN]}…"
    if kind is not None:
        return f"{word} of what?", f"Write {word}.NAME, as in {word}.{_EXAMPLES[kind]}"
    near = difflib.get_close_matches(word.lower(), list(_HEADS) if has_parts else PLAIN, n=1)
    if near:
        return f"there is no {word!r}.", f"Did you mean {near[0]}?"
    if has_parts:
        return f"there is no {word!r}.", _NAMES
    meant = f"Write a parameter as hparams.{word}, a metric as metrics.{word}."
    return f"there is no {word!r}.", f"{meant}\n{_NAMES}"


_EXAMPLES = {PARAMETER: "lr", METRIC: "loss"}
