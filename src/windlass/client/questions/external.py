"""Recording what Windlass did not start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.calls import users_call
from windlass.client.questions.asker import Asker

if TYPE_CHECKING:
    from windlass.client.experiments import Experiment
    from windlass.client.external import ExternalTrial


class ExternalQuestions(Asker):
    """Trials of processes that run already."""

    @users_call("wl.start_trial")
    def start_trial(
        self,
        name: str,
        *,
        experiment: str | Experiment | None = None,
        params: Mapping[str, Any] | None = None,
        labels: Sequence[str] = (),
    ) -> ExternalTrial:
        """Record this very process as a trial: a notebook, or a program that another tool started.

        Until it is finished, `wl.report`, `wl.save_checkpoint`, `wl.should_stop` and all else that
        works inside a trial works here. At the end of the block it has succeeded; an exception
        fails it, Ctrl-C stops it, and when the process dies without a word it is marked as lost.

        ```python
        with wl.start_trial("notebook", experiment="try-outs", params={"lr": 0.1}) as trial:
            for step in range(3):
                wl.report(step, loss=1 / (step + 1))
        print(trial.state)
        ```

        Args:
            name: what it is called.
            experiment: the experiment it belongs to, or its name; one of the trial's name by
                default.
            params: what is to be recorded as its parameters.
            labels: texts to find it by.
        """
        from windlass.client.external import start

        return start(self.transport, name, experiment, params, labels)
