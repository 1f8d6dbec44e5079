"""What tests of experiments do things with."""

from __future__ import annotations

import uuid
from typing import Any

from windlass.client.experiments import Experiment
from windlass.client.session import default_client
from windlass.model.records import ExperimentRecord
from windlass.model.wire import CreateExperiment


def new_experiment(name: str, **given: Any) -> Experiment:
    """An experiment, made as `create_experiment` makes it."""
    transport = default_client().transport
    request = CreateExperiment(key=uuid.uuid4().hex, name=name, **given)
    return Experiment(
        transport, transport.ask("POST", "/experiments", ExperimentRecord, body=request)
    )
