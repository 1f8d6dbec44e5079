"""The language of `where`: what trials are to fulfil, read into a tree.

    hparams.lr < 0.1 and metrics.loss.min < 0.3 and state = 'FAILED'
    (name contains 'deep' or labels contains 'paper') and created > 2d ago

Nothing is run here: `server/listing.py` makes SQL of the tree, each value a bound parameter.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from windlass.model.errors import InvalidArgument
from windlass.model.quantities import parse_duration
from windlass.model.times import parse_time

LONGEST = 10_000
_DEEPEST = 50
_MOST_COMPARISONS = 100
_MOST_VALUES = 1000
_SHOWN = 60  # characters of a long text around the place that is pointed at

PLAIN = (
    "id", "name", "state", "kind", "experiment", "project", "user", "labels",
    "created", "started", "ended", "duration",
)  # fmt: skip
PARAMETER, METRIC = "hparams", "metrics"
ASPECTS = ("last", "min", "max", "mean", "count")  # of a metric; the first unless it is said
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
    """So many seconds."""


class Moment(float):
    """A point in time, in seconds since the epoch."""


Value = float | str | bool | Duration | Moment | None


class Name(NamedTuple):
    """What is compared: a plain attribute, a parameter, or an aspect of a metric."""

    kind: str  # one of PLAIN, PARAMETER or METRIC
    name: str = ""
    aspect: str = ""

    def __str__(self) -> str:
        if self.kind not in (PARAMETER, METRIC):
            return self.kind
        quoted = self.name if re.fullmatch(r"[\w/.-]+", self.name) else f'"{self.name}"'
        return ".".join(part for part in (self.kind, quoted, self.aspect) if part)


class Comparison(NamedTuple):
    """A name, an operator (`in` with any number of values), and where in the text it stands."""

    name: Name
    operator: str
    values: tuple[Value, ...]
    start: int
    end: int
    said: str = ""  # the name as it stands in the text


class Not(NamedTuple):
    """The contrary."""

    part: Tree


class Several(NamedTuple):
    """All of them hold, or any of them does."""

    how: str  # "and" | "or"
    parts: tuple[Tree, ...]


Tree = Comparison | Not | Several


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


def parse(text: str, now: float) -> Tree:
    """What a text asks for.

    >>> parse("hparams.lr <= 0.1", 0.0)
    Comparison(name=Name(kind='hparams', name='lr', aspect=''), operator='<=', values=(0.1,), \
start=0, end=17, said='hparams.lr')
    """
    return _Parser(text, now).whole()


def parse_name(text: str) -> Name | None:
    """The parameter or metric that a text names, as in `metrics.loss.min`; else none."""
    try:
        return _Parser(text, 0.0).only_name()
    except InvalidArgument:
        return None


def fault(text: str, start: int, end: int, what: str, hint: str = "") -> InvalidArgument:
    """An error that points at a place in the text."""
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
        self._said_name = ""  # the name that was read last, as it stands in the text

    def whole(self) -> Tree:
        tree = self._either(0)
        if self._next.kind != "end":
            raise self._fault(self._next, f"{self._said(self._next)} is not understood here.",
                         "Join comparisons with and, or.")  # fmt: skip
        return tree

    def only_name(self) -> Name:
        name = self._name()
        if self._next.kind != "end":
            raise self._fault(self._next, "it goes on after the name.")
        return name

    # -- what it is made of -----------------------------------------------------------

    def _either(self, depth: int) -> Tree:
        return self._joined("or", depth)

    def _joined(self, how: str, depth: int) -> Tree:
        parts = [self._part(how, depth)]
        while self._take_word(how):
            parts.append(self._part(how, depth))
        return parts[0] if len(parts) == 1 else Several(how, tuple(parts))

    def _part(self, how: str, depth: int) -> Tree:
        return self._joined("and", depth) if how == "or" else self._single(depth)

    def _single(self, depth: int) -> Tree:
        token = self._next
        if depth > _DEEPEST:
            raise self._fault(token, f"it is more than {_DEEPEST} levels deep.")
        if self._take_word("not"):
            return Not(self._single(depth + 1))
        if self._take_sign("("):
            tree = self._either(depth + 1)
            if not self._take_sign(")"):
                raise self._fault(token, "this parenthesis is not closed.")
            return tree
        return self._comparison()

    def _comparison(self) -> Tree:
        start = self._next
        self._comparisons += 1
        if self._comparisons > _MOST_COMPARISONS:
            raise self._fault(start, f"it has more than {_MOST_COMPARISONS} comparisons.")
        if start.kind in ("text", "number"):
            return self._turned()
        name = self._name()
        self._said_name = self._text[start.start : self._tokens[self._at - 1].end]
        is_negated = self._take_word("not")
        if self._take_word("in"):
            tree = self._of(name, "in", self._values(), start)
            return Not(tree) if is_negated else tree
        if is_negated:
            raise self._fault(self._next, "after the name and not there has to be in.")
        if self._take_word("is"):
            operator = "!=" if self._take_word("not") else "="
            if self._take_word("nan"):
                return self._of(name, operator, (float("nan"),), start)
            if not (self._take_word("null") or self._take_word("none")):
                raise self._fault(self._next, "after is there has to be null, nan, not null or so.")
            return self._of(name, operator, (None,), start)
        operator = self._operator()
        return self._of(name, operator, (self._value(),), start)

    def _turned(self) -> Tree:
        """`'paper' in labels`, the one comparison that begins with its value."""
        start = self._next
        value = self._value()
        if self._take_word("in"):
            first, name = self._next, self._name()
            self._said_name = self._text[first.start : self._tokens[self._at - 1].end]
            return self._of(name, "contains", (value,), start)
        raise self._fault(start, "a comparison begins with a name.", "As in: hparams.lr < 0.1")

    def _of(self, name: Name, how: str, values: tuple[Value, ...], start: _Token) -> Comparison:
        end = self._tokens[self._at - 1].end
        return Comparison(name, how, values, start.start, end, self._said_name)

    def _operator(self) -> str:
        token = self._next
        found = _OPERATORS.get(token.text.lower()) if token.kind in ("sign", "word") else None
        if found is None:
            raise self._fault(
                token,
                f"after {self._said_name} there has to be a comparison, not {self._said(token)}.",
                f"There are: {', '.join(dict.fromkeys(_OPERATORS.values()))}, in.",
            )
        self._at += 1
        return found

    def _name(self) -> Name:
        first = self._next
        if first.kind != "word":
            said = self._said(first)
            raise self._fault(first, f"a name is missing here, before {said}.", _WHICH)
        self._at += 1
        parts: list[_Token] = []
        while self._take_sign("."):
            token = self._next
            if token.kind not in ("word", "text", "quoted", "number", "date", "duration"):
                raise self._fault(token, "a name is missing after the dot.")
            parts.append(token)
            self._at += 1
        return self._resolved(first, parts)

    def _resolved(self, first: _Token, parts: Sequence[_Token]) -> Name:
        head = first.text.lower()
        if head in PLAIN and not parts:
            return Name(head)
        kind = _HEADS.get(head)
        if kind is None or not parts:
            raise self._fault(first, *_unknown(first.text, has_parts=bool(parts), kind=kind))
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
            raise self._fault(opening, "in takes values in parentheses.", "As in: id in (3, 5)")
        values = [self._value()]
        while self._take_sign(","):
            values.append(self._value())
            if len(values) > _MOST_VALUES:
                raise self._fault(opening, f"it has more than {_MOST_VALUES} values.")
        if not self._take_sign(")"):
            raise self._fault(opening, "this parenthesis is not closed.")
        return tuple(values)

    def _value(self) -> Value:
        token = self._next
        self._at += 1
        if token.kind == "text":
            return _unquoted(token)
        if token.kind == "number":
            return float(token.text)
        if token.kind == "duration":
            is_none = not re.search("[1-9]", token.text)
            seconds = 0.0 if is_none else self._read(parse_duration, token)
            return Moment(self._now - seconds) if self._take_word("ago") else Duration(seconds)
        if token.kind == "date":
            return Moment(self._read(parse_time, token))
        if token.kind == "word" and token.text.lower() in _CONSTANTS:
            return _CONSTANTS[token.text.lower()]
        if token.text == "-inf":
            return float("-inf")
        if token.kind == "word" and token.text.lower() not in _RESERVED:
            return token.text  # state = FAILED
        raise self._fault(
            token,
            f"a value is missing here, before {self._said(token)}.",
            "A text stands in quotes: name = 'train'",
        )

    # -- token by token ---------------------------------------------------------------

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take_word(self, word: str) -> bool:
        return self._take(self._next.kind == "word" and self._next.text.lower() == word)

    def _take_sign(self, sign: str) -> bool:
        return self._take(self._next.kind == "sign" and self._next.text == sign)

    def _take(self, is_it: bool) -> bool:
        self._at += is_it
        return is_it

    def _split(self) -> list[_Token]:
        text, at = self._text, 0
        tokens: list[_Token] = []
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                quote = text[at] in "'\"`"
                what = "this quote is not closed." if quote else f"{text[at]!r} means nothing here."
                odd = 'A name with odd characters stands in quotes: metrics."loss (m²)"'
                raise fault(text, at, at + 1, what, "" if quote else odd)
            if found.lastgroup != "space":
                tokens.append(_Token(found.lastgroup or "", found[0], at, found.end()))
            at = found.end()
        return [*tokens, _Token("end", "", len(text), len(text))]

    def _read(self, how: Callable[[str], float], token: _Token) -> float:
        try:
            return how(token.text)
        except ValueError as error:
            raise self._fault(token, f"{error}.") from error

    def _said(self, token: _Token) -> str:
        return "the end" if token.kind == "end" else repr(token.text)

    def _fault(self, token: _Token, what: str, hint: str = "") -> InvalidArgument:
        return fault(self._text, token.start, token.end, what, hint)


_WHICH = f"There are hparams.NAME, metrics.NAME, {', '.join(PLAIN)}."


def _unquoted(token: _Token) -> str:
    if token.kind not in ("text", "quoted"):
        return token.text
    quote = token.text[0]
    return token.text[1:-1].replace(quote * 2, quote)


def _unknown(word: str, *, has_parts: bool, kind: str | None) -> tuple[str, str]:
    """What is wrong with a name, and what was probably meant."""
    word = word if len(word) <= _SHOWN else f"{word[:_SHOWN]}…"
    if kind is not None:
        return f"{word} of what?", f"Write {word}.NAME, as in {word}.{_EXAMPLES[kind]}"
    near = difflib.get_close_matches(word.lower(), list(_HEADS) if has_parts else PLAIN, n=1)
    if near:
        return f"there is no {word!r}.", f"Did you mean {near[0]}?"
    if has_parts:
        return f"there is no {word!r}.", _WHICH
    meant = f"A parameter is written hparams.{word}, a metric metrics.{word}."
    return f"there is no {word!r}.", f"{meant}\n{_WHICH}"


_EXAMPLES = {PARAMETER: "lr", METRIC: "loss"}
