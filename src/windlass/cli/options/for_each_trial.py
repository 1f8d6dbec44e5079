"""Changes several trials one by one, continuing after errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.client.resources.trial.trial import Trial


def change_trials(trial_ids: Iterable[int], change: Callable[[Trial[Any]], str]) -> int:
    """Call `change` for each trial and print the results and errors.

    Return the command's exit code, which is 1 if any change failed.
    """
    from windlass.cli.output.text import print_error
    from windlass.client.client import default_client
    from windlass.model.errors import Conflict, InvalidArgument, NotFound

    client = default_client()
    code = 0
    for trial_id in dict.fromkeys(trial_ids):
        try:
            result = change(client.get_trial(trial_id))
        except (NotFound, Conflict, InvalidArgument) as error:
            print_error(str(error))
            code = 1
        else:
            print(result, flush=True)
    return code


def trial_label(trial: Trial[Any]) -> str:
    """Return a trial's id and name, as messages show them."""
    return f"Trial {trial.id} ({trial.name})"


def state_words(trial: Trial[Any]) -> str:
    """Return a trial's state and message, for a sentence that starts with "it is"."""
    from windlass.cli.output.text import clean

    state = trial.state.lower()
    return f"{state}: {clean(trial.message)}" if trial.message else state
