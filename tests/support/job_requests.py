"""Requests for jobs of several replicas, in the format of the API."""

from __future__ import annotations

import os
import sys
import uuid
from typing import Any

import windlass as wl
from windlass.client.client import Client
from windlass.client.resources.trial.trial import Trial
from windlass.model.hardware.resources import Resources
from windlass.model.job import JobSpec, ProcessCall, Python, Role
from windlass.model.records import TrialRecord
from windlass.model.requests import CreateTrial, Private

# The beginning of every replica's program: its identity, and a wait for a file.
PREAMBLE = """
import os, signal, sys, time
me = os.environ["WINDLASS_REPLICA"].split("/")
role, index, attempt = me[1], int(me[2]), int(me[3])
name = f"{role}-{index}"
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)
def touch(path):
    open(path, "a").close()
"""


def role(program: str, name: str = "worker", replicas: int = 1, **fields: Any) -> Role:
    """Describe replicas that run Python code, which may use `role`, `index`, `attempt`, `name`."""
    argv = ("python", "-u", "-c", PREAMBLE + program)
    return Role(
        executable=ProcessCall(argv=argv),
        name=name,
        replicas=replicas,
        **{"resources": Resources(cpus=0.01), **fields},
    )


def request(*roles: Role, name: str = "mnist", **spec: Any) -> CreateTrial:
    """Build a request for a trial with these roles."""
    return CreateTrial(
        key=uuid.uuid4().hex,
        experiment=name,
        spec=JobSpec(roles=roles, python=Python(executable=sys.executable), **spec),
        private=Private(environ=dict(os.environ)),
    )


def submit(*roles: Role, name: str = "mnist", **spec: Any) -> Trial[Any]:
    """Submit a trial with these roles."""
    transport = Client().transport
    job_request = request(*roles, name=name, **spec)
    record = transport.ask("POST", "/trials", TrialRecord, body=job_request)
    return wl.get_trial(record.id)
