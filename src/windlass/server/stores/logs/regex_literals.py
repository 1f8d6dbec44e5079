"""Finds literal texts, at least one of which is in every match of an RE2 expression.

Searching for such literals is a fast filter to apply before the expression itself.
"""

from __future__ import annotations

import re

MOST = 4  # literals to search for at once; more would be slower than the expression itself

_TOKEN = re.compile(
    r"\\[pPxX]\{[^}]*\}|\\x[0-9a-fA-F]{2}|\\[0-7]{1,3}|\\[pP].|\\.|\\"  # an escape sequence
    r"|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]?"  # a character class
    r"|\(\?P?<[^>]*>|\(\?[a-zA-Z-]*\)|\(\?[a-zA-Z-]*:|\(|.",
    re.DOTALL,
)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?")


def required_literals(expression: str) -> tuple[bytes, ...]:
    """Return literal texts, at least one of which is in every match of the expression.

    The result is empty if there are no such texts or the expression is too complex.

    >>> required_literals(r"[A-Z]\\w+Error: .*memory"), required_literals(r"(nan|inf)\\b")
    ((b'Error: ',), (b'nan', b'inf'))
    >>> (
    ...     required_literals(r"loss=\\d+\\.5?"),
    ...     required_literals("(?i)error"),
    ...     required_literals("a?"),
    ... )
    ((b'loss=',), (), ())
    """
    if "\\Q" in expression or re.search(r"\(\?[a-zA-Z-]*i", expression):
        return ()
    literals = _Reading(expression).alternatives()
    return tuple(dict.fromkeys(text.encode("utf-8", "surrogatepass") for text in literals))


class _Reading:
    """A simple parser that reads an expression from left to right."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._at = 0

    def alternatives(self) -> list[str]:
        """Return the literals of all branches (`a|b`) up to the end of the group.

        Every match of the group contains one of these literals. The result is empty if any branch
        has no literals.
        """
        branches = [self._branch()]
        while self._next() == "|":
            branches.append(self._branch())
        literals = [text for branch in branches for text in branch]
        return literals if all(branches) and len(literals) <= MOST else []

    def _branch(self) -> list[str]:
        """Return the most selective literals of a branch, which ends at `|`, `)` or the end."""
        sets: list[list[str]] = []
        run = ""
        while self._peek() not in ("", "|", ")"):
            piece = self._next()
            inner: list[str] = []
            # A group that is closed at once only sets flags.
            if piece[0] == "(" and not piece.endswith(")"):
                inner = self.alternatives()  # also reads the closing bracket
            literal = _literal_of(piece)
            quantifier = _QUANTIFIER.match(self._expression, self._at)
            if quantifier is None and literal:
                run += literal
                continue
            if quantifier is not None:
                self._at = quantifier.end()
                is_sure = quantifier[0][0] == "+"
                run += literal if is_sure else ""
                inner = inner if is_sure else []
            sets += [[run], inner]
            run = ""
        sets.append([run])
        best = max(sets, key=_worth)
        return best if all(best) else []

    def _peek(self) -> str:
        token = _TOKEN.match(self._expression, self._at)
        return token[0] if token else ""

    def _next(self) -> str:
        piece = self._peek()
        self._at += len(piece)
        return piece


def _worth(texts: list[str]) -> tuple[int, int]:
    """Return a sort key by which the most selective set of literals is the greatest.

    The key is the length of the shortest literal, then the negated number of literals. Longer
    literals are rarer, so they filter better.
    """
    return (min(map(len, texts), default=0), -len(texts))


def _literal_of(piece: str) -> str:
    """Return the character that a token matches.

    Return "" if the token can match any other character.
    """
    if len(piece) == 2 and piece[0] == "\\":
        return piece[1] if not piece[1].isalnum() and piece[1].isascii() else ""
    return piece if len(piece) == 1 and piece not in "^$.|()[]*+?\\" else ""
