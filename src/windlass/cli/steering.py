"""Changing several trials, one after the other: one that cannot be changed stops no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.client.trials import Trial


def steer(trial_ids: Iterable[int], change: Callable[[Trial[Any]], str]) -> int:
    """Change each trial and print what `change` says of it; the exit code of the command."""
    from windlass.cli.text import say_error
    from windlass.client.session import default_client
    from windlass.model.errors import Conflict, InvalidArgument, NotFound

    client = default_client()
    code = 0
    for trial_id in dict.fromkeys(trial_ids):
        try:
            told = change(client.get_trial(trial_id))
        except (NotFound, Conflict, InvalidArgument) as error:
            say_error(str(error))
            code = 1
        else:
            print(told, flush=True)
    return code


def called(trial: Trial[Any]) -> str:
    """A trial as it is spoken of."""
    return f"Trial {trial.id} ({trial.name})"


def state_words(trial: Trial[Any]) -> str:
    """How a trial stands, to follow "it is"."""
    from windlass.cli.text import clean

    state = trial.state.lower()
    return f"{state}: {clean(trial.message)}" if trial.message else state
