"""Thousands of examples from a reproducible seed, with limits of time and memory."""

from __future__ import annotations

import contextlib
import copy
import json
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from chaos_seed import Chaos
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

_LIMIT = 20.0  # seconds for one example that takes microseconds: a limit for hangs
_MEMORY = 256 << 20  # additional bytes that a test may need

# Valid but unusual JSON: out of range, invalid Unicode, huge.
ODD = (
    None, True, False, 0, -1, 2**31, 2**63, 10**400, 0.5, float("nan"), float("inf"), "", "x",
    "\0", "\ud800", "..", "/", "../../etc/passwd", "9" * 5000, [], {}, [[]], {"": {}}, [None],
    {"\ud800": 1},
)  # fmt: skip

json_values = st.recursive(
    st.sampled_from(ODD) | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


def examine(
    chaos: Chaos,
    check: Callable[..., None],
    *strategies: st.SearchStrategy[Any],
    short: int = 100,
    long: int = 4000,
) -> None:
    """Check a function with many examples, chosen by the seed of the test."""

    def bounded(example: tuple[Any, ...]) -> None:
        with within(_LIMIT):
            check(*example)

    before = _peak()
    run = given(st.tuples(*strategies))(bounded)
    run = settings(
        max_examples=chaos.examples(short, long),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )(seed(chaos.seed)(run))
    run()
    assert _peak() - before < _MEMORY, "it took far more memory than its input could need"


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail after a time limit instead of waiting forever."""

    def give_up(*_: object) -> None:
        raise AssertionError(f"it hangs: {seconds:g} s and no end")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def anything_but(valid: bytes) -> st.SearchStrategy[bytes]:
    """Random bytes, and mutations of valid bytes."""
    return st.binary(max_size=300) | mutated(valid) | mutated_json(valid) | _deep


_deep = st.sampled_from([b"[" * 100_000, b'{"a":' * 100_000, b"[" * 50_000 + b"]" * 50_000])


@st.composite
def mutated(draw: st.DrawFn, valid: bytes) -> bytes:
    """Some bytes with a few positions changed, removed, repeated or cut off."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 20)))
        how = draw(st.sampled_from(("flip", "drop", "insert", "repeat", "cut")))
        if how == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif how == "drop":
            del data[at:end]
        elif how == "insert":
            data[at:at] = draw(st.binary(max_size=20))
        elif how == "repeat":
            data[at:at] = data[at:end]
        elif how == "cut":
            del data[at:]
    return bytes(data)


@st.composite
def mutated_json(draw: st.DrawFn, valid: bytes) -> bytes:
    """A JSON document with one or two of its values replaced, moved or removed."""
    value = copy.deepcopy(json.loads(valid))
    for _ in range(draw(st.integers(1, 2))):
        places = list(_places(value))
        if not places:
            break
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        # Copies, because a drawn value must not change and a value must not contain itself.
        if draw(st.booleans()):
            holder[key] = copy.deepcopy(draw(json_values))
        elif isinstance(holder, dict):
            del holder[key]
        else:
            holder.append(copy.deepcopy(holder[key]))
    return json.dumps(value, separators=(",", ":")).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from _places(value[key])
