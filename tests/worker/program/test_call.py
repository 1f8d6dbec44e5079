"""The short text of a value in lists, which its worker creates."""

from __future__ import annotations

import numpy as np

from windlass.worker.program.call import short_repr


def test_numpy_numbers_are_shown_as_numbers() -> None:
    value = {"loss": np.float64(0.25), "step": np.int64(3), "ok": np.bool_(True)}
    assert short_repr(value) == "{'loss': 0.25, 'step': 3, 'ok': True}"
    assert short_repr([np.float32(0.1), (np.float64("nan"),)]) == "[0.1, (nan,)]"
    assert short_repr(np.float64(2)) == "2.0"


def test_other_values_of_numpy_are_shown_unchanged() -> None:
    assert short_repr(np.array([1, 2])) == "array([1, 2])"
    assert short_repr([np.str_("a")]) == f"[{np.str_('a')!r}]"
